package temporal

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	enums "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"

	"github.com/braise-run/braise/internal/value"
)

// Notes says what keeps a run from continuing that its journal does not tell: nobody polls its task queue, or one that its
// calls go to; or a task or a call of it fails again and again. nil: nothing is known to.
func (e *Engine) Notes(ctx context.Context, id string) (notes []string, err error) {
	info, err := e.Client.DescribeWorkflowExecution(ctx, id, "")
	if err != nil {
		return nil, failed(id, err)
	}
	if info.GetWorkflowExecutionInfo().GetStatus() != enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return nil, nil
	}
	nobody, err := e.nobody(ctx, info)
	if err != nil {
		return nil, failed(id, err)
	}
	if nobody != "" {
		notes = append(notes, nobody)
	}
	if task := info.GetPendingWorkflowTask(); task.GetAttempt() > 1 {
		text := fmt.Sprintf("the workflow task fails again and again, this is attempt %d", task.GetAttempt())
		if why := e.whyTaskFailed(ctx, id); why != "" {
			text += ": " + why
		}
		notes = append(notes, text)
	}
	of, err := e.callsOf(ctx, info, nobody != "")
	if err != nil {
		return nil, failed(id, err)
	}
	return slices.Concat(notes, of, e.waitsOf(ctx, id)), nil
}

// whyTaskFailed is the message of the last workflow task that failed; "": it is not known.
func (e *Engine) whyTaskFailed(ctx context.Context, id string) (why string) {
	it := e.Client.GetWorkflowHistory(ctx, id, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for it.HasNext() {
		ev, err := it.Next()
		if err != nil {
			return why
		}
		if f := ev.GetWorkflowTaskFailedEventAttributes(); f != nil {
			why = e.message(f.GetFailure())
		}
	}
	return why
}

// message is what a failure says, in one line. With keys that is encrypted.
func (e *Engine) message(f *failurepb.Failure) string {
	if f = proto.CloneOf(f); f.GetEncodedAttributes() != nil {
		if err := e.data().FromPayload(f.EncodedAttributes, new(any)); err != nil {
			f.Message = fmt.Sprintf("what failed cannot be read here: %v", err)
		}
		converter.DecodeCommonFailureAttributes(e.data(), f)
	}
	return oneLine(f.GetMessage())
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// callsOf says which calls wait for a worker, or fail again and again. alone: that nobody polls the run's own queue is
// known.
func (e *Engine) callsOf(
	ctx context.Context, info *workflowservice.DescribeWorkflowExecutionResponse, alone bool,
) (notes []string, err error) {
	own := info.GetExecutionConfig().GetTaskQueue().GetName()
	calls := calls{engine: e, ctx: ctx, id: info.GetWorkflowExecutionInfo().GetExecution().GetWorkflowId()}
	waiting := map[string][]string{} // paths, by queue
	for _, a := range info.GetPendingActivities() {
		if a.GetAttempt() > 1 {
			notes = append(notes, fmt.Sprintf("step %s is at attempt %d: %s", calls.of(a).path, a.GetAttempt(),
				e.message(a.GetLastFailure())))
		}
		queue := calls.queue(a)
		if a.GetState() != enums.PENDING_ACTIVITY_STATE_SCHEDULED || alone && queue == own {
			continue
		}
		if _, known := waiting[queue]; !known {
			resp, err := e.Client.DescribeTaskQueue(ctx, queue, enums.TASK_QUEUE_TYPE_ACTIVITY)
			if err != nil {
				return nil, err
			}
			if waiting[queue] = nil; len(polling(resp)) == 0 {
				waiting[queue] = []string{}
			}
		}
		if waiting[queue] != nil {
			waiting[queue] = append(waiting[queue], calls.of(a).path)
		}
	}
	for _, queue := range value.SortedKeys(waiting) {
		if paths := waiting[queue]; len(paths) > 0 {
			slices.Sort(paths)
			text := paths[0]
			if more := len(paths) - 1; more > 0 {
				text += fmt.Sprintf(" and %d more", more)
			}
			notes = append(notes, unpolled(queue)+", to which calls go: step "+text)
		}
	}
	return notes, nil
}

// calls finds out what the pending activities of a run are about.
type calls struct {
	engine *Engine
	ctx    context.Context
	id     string
	known  map[string]scheduled // by activity; nil: the history was not read
}

// scheduled is what the history says of an activity.
type scheduled struct{ path, queue string }

// queue is where an activity waits.
func (c *calls) queue(a *workflowpb.PendingActivityInfo) string {
	if name := a.GetActivityOptions().GetTaskQueue().GetName(); name != "" {
		return name
	}
	return c.of(a).queue // servers before 1.28 do not say it
}

// of is what the history says of an activity. Its path is its number if that cannot be read.
func (c *calls) of(a *workflowpb.PendingActivityInfo) scheduled {
	if c.known == nil {
		c.known = map[string]scheduled{}
		e := c.engine
		it := e.Client.GetWorkflowHistory(c.ctx, c.id, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for it.HasNext() {
			ev, err := it.Next()
			if err != nil {
				break
			}
			if s := ev.GetActivityTaskScheduledEventAttributes(); s != nil {
				of := scheduled{s.GetActivityId(), s.GetTaskQueue().GetName()}
				_ = e.data().FromPayload(ev.GetUserMetadata().GetSummary(), &of.path)
				c.known[s.GetActivityId()] = of
			}
		}
	}
	if of, ok := c.known[a.GetActivityId()]; ok {
		return of
	}
	return scheduled{path: a.GetActivityId()}
}

// waitsOf says which calls wait because the last worker lacked what they need. nil: none does, or no worker answers.
func (e *Engine) waitsOf(ctx context.Context, id string) (notes []string) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var waits []waiting
	if v, err := e.Client.QueryWorkflow(ctx, id, "", waitsQuery); err != nil || v.Get(&waits) != nil {
		return nil
	}
	for _, w := range waits {
		notes = append(notes, fmt.Sprintf("step %s waits for another worker: %s", w.Path, oneLine(w.Lacks)))
	}
	return notes
}

// waiting is a call that the last worker could not make.
type waiting struct {
	Path  string `json:"path"`
	Lacks string `json:"lacks"` // what it lacked
}

// waits are the calls of a run that wait for another worker.
func (r *run) waits() (list []waiting, err error) {
	for _, f := range r.inOrder() {
		if f.lacks != "" {
			list = append(list, waiting{f.path, f.lacks})
		}
	}
	return list, nil
}

// stale is how long ago the last request for work was of a worker that is gone: requests wait for a minute.
const stale = 90 * time.Second

// polling are the versions of the workers that ask for the tasks of a queue, each once; "" for workers without one.
func polling(resp *workflowservice.DescribeTaskQueueResponse) (versions []string) {
	for _, p := range resp.GetPollers() {
		if time.Since(p.GetLastAccessTime().AsTime()) < stale {
			build := ""
			if o := p.GetDeploymentOptions(); o.GetWorkerVersioningMode() == enums.WORKER_VERSIONING_MODE_VERSIONED {
				build = o.GetBuildId()
			}
			versions = append(versions, build)
		}
	}
	slices.Sort(versions)
	return slices.Compact(versions)
}

func unpolled(queue string) string { return fmt.Sprintf("no worker polls the task queue %q", queue) }

// nobody says why no worker takes the workflow tasks of a run; "": one does.
func (e *Engine) nobody(ctx context.Context, info *workflowservice.DescribeWorkflowExecutionResponse) (string, error) {
	queue := info.GetExecutionConfig().GetTaskQueue().GetName()
	resp, err := e.Client.DescribeTaskQueue(ctx, queue, enums.TASK_QUEUE_TYPE_WORKFLOW)
	if err != nil {
		return "", err
	}
	there := polling(resp)
	if len(there) == 0 {
		return unpolled(queue), nil
	}
	about := info.GetWorkflowExecutionInfo().GetVersioningInfo()
	build := about.GetVersioningOverride().GetPinned().GetVersion().GetBuildId()
	if build == "" {
		build = about.GetDeploymentVersion().GetBuildId()
	}
	which := ", with which the run began,"
	if build == "" {
		which = ", which is the current one,"
		build = resp.GetVersioningInfo().GetCurrentDeploymentVersion().GetBuildId()
	}
	switch {
	case slices.Contains(there, build):
		return "", nil
	case build == "":
		return fmt.Sprintf("no version of the workers of the task queue %q is the current one; there are %q", queue, there), nil
	}
	return fmt.Sprintf("no worker of version %q%s polls the task queue %q; there are %q", build, which, queue, there), nil
}
