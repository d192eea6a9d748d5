package temporal

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	enums "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/resume"
)

// List returns the runs that a filter lets through, the latest first, or the oldest first if the filter says so. It asks
// Temporal's visibility, which may be a moment late. A run that has not ended is asked whether it is paused.
func (e *Engine) List(ctx context.Context, f checkpoint.Filter) (list []checkpoint.Summary, err error) {
	query := fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus != 'ContinuedAsNew'", runWorkflow)
	var page []byte
	for {
		resp, err := e.Client.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: query, NextPageToken: page})
		if err != nil {
			return nil, failed("", err)
		}
		for _, info := range resp.Executions {
			if s, ok := e.summaryOf(ctx, info); ok && f.Match(s) {
				list = append(list, s)
			}
		}
		if page = resp.NextPageToken; len(page) == 0 {
			break
		}
	}
	slices.SortFunc(list, func(a, b checkpoint.Summary) int {
		if f.Oldest {
			a, b = b, a
		}
		if c := b.StartedAt.Compare(a.StartedAt); c != 0 {
			return c
		}
		return strings.Compare(b.ID, a.ID)
	})
	if f.Limit > 0 && len(list) > f.Limit {
		list = list[:f.Limit]
	}
	return list, nil
}

// summaryOf is the summary of a run in a list; false: it is none of ours.
func (e *Engine) summaryOf(ctx context.Context, info *workflowpb.WorkflowExecutionInfo) (s checkpoint.Summary, ok bool) {
	if s, ok = e.known(info); !ok || s.Status != checkpoint.Running {
		return s, ok
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var now checkpoint.Summary
	if v, err := e.Client.QueryWorkflow(ctx, s.ID, "", summaryQuery); err == nil && v.Get(&now) == nil && now.ID != "" {
		now.Held = now.Status == checkpoint.Running
		return now, true
	}
	return s, true
}

// known is what the server itself knows of a run; false: it is none of ours.
func (e *Engine) known(info *workflowpb.WorkflowExecutionInfo) (s checkpoint.Summary, ok bool) {
	var m memo
	field := info.GetMemo().GetFields()[memoKey]
	if field == nil || e.data().FromPayload(field, &m) != nil {
		return s, false
	}
	s.Run = checkpoint.Run{ID: info.GetExecution().GetWorkflowId(), Recipe: m.Recipe, Digest: m.Digest, By: m.By,
		StartedAt: m.StartedAt}
	s.Status, s.UpdatedAt = checkpoint.Running, m.StartedAt
	switch info.GetStatus() {
	case enums.WORKFLOW_EXECUTION_STATUS_COMPLETED:
		s.Status = checkpoint.OK
	case enums.WORKFLOW_EXECUTION_STATUS_CANCELED:
		s.Status = checkpoint.Cancelled
	case enums.WORKFLOW_EXECUTION_STATUS_RUNNING:
		s.Held = true
		return s, true
	default:
		s.Status = checkpoint.Failed
	}
	s.EndedAt = info.GetCloseTime().AsTime()
	s.UpdatedAt = s.EndedAt
	return s, true
}

// pendingIn are the pauses of a summary, as far as their tokens need them.
func pendingIn(s *checkpoint.Summary) (list []resume.Pause) {
	for _, p := range s.Pauses {
		list = append(list, resume.Pause{ID: p.ID})
	}
	return list
}
