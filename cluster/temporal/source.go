package temporal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
)

// Source shows the runs of an engine to package history: it is a history.Source. A run whose worker does not answer is
// shown without its journal. It keeps the journal that it read last, is safe for concurrent use, and must not be copied.
type Source struct {
	Engine *Engine // not nil

	mu   sync.Mutex
	run  string              // of recs
	recs []checkpoint.Record // that were read last
	runs map[string]string   // that have a definition, by its digest
}

// List returns what [Engine.List] does.
func (s *Source) List(ctx context.Context, f checkpoint.Filter) ([]checkpoint.Summary, error) {
	return s.Engine.List(ctx, f)
}

// Load returns a run, and its records behind the one with the number after. The error is checkpoint.ErrNotFound for a run
// that the namespace does not have.
func (s *Source) Load(
	ctx context.Context, id string, after int64,
) (sum checkpoint.Summary, recs []checkpoint.Record, err error) {
	info, err := s.Engine.Client.DescribeWorkflowExecution(ctx, id, "")
	if err != nil {
		return sum, nil, failed(id, err)
	}
	sum, ok := s.Engine.known(info.GetWorkflowExecutionInfo())
	if !ok {
		return sum, nil, failed(id, checkpoint.ErrNotFound)
	}
	nobody, err := s.Engine.nobody(ctx, info)
	answers := err != nil || nobody == "" // else nobody is there to ask
	if sum.Status == checkpoint.Running && answers {
		sum, _ = s.Engine.summaryOf(ctx, info.GetWorkflowExecutionInfo())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runs == nil {
		s.runs = map[string]string{}
	}
	s.runs[sum.Digest] = id
	if after == math.MaxInt64 || !answers {
		return sum, nil, nil
	}
	if s.run != id {
		s.run, s.recs = id, nil
	}
	asked, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	more, err := s.Engine.journal(asked, id, len(s.recs))
	if err != nil {
		if ctx.Err() != nil {
			return sum, nil, failed(id, ctx.Err())
		}
		return sum, nil, nil // Notes say why nobody answers
	}
	s.recs = append(s.recs, more...)
	if len(s.recs) == 0 {
		return sum, nil, nil
	}
	if sum, err = checkpoint.Fold(id, s.recs); err != nil {
		return sum, nil, failed(id, err)
	}
	sum.Held = sum.Status == checkpoint.Running
	return sum, s.recs[min(max(after, 0), int64(len(s.recs))):], nil
}

// Definition returns the recipe of a run that Load has returned, by its digest.
func (s *Source) Definition(ctx context.Context, digest string) (json.RawMessage, error) {
	s.mu.Lock()
	id, ok := s.runs[digest]
	s.mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("digest %q: %w", digest, checkpoint.ErrNotFound)
	}
	it := s.Engine.Client.GetWorkflowHistory(ctx, id, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	if !it.HasNext() {
		return nil, fmt.Errorf("digest %q: %w", digest, checkpoint.ErrNotFound)
	}
	e, err := it.Next()
	if err != nil {
		return nil, failed(id, err)
	}
	var in input
	if err := s.Engine.data().FromPayloads(e.GetWorkflowExecutionStartedEventAttributes().GetInput(), &in); err != nil {
		return nil, failed(id, err)
	}
	if _, err := recipe.FromDefinition(in.Definition); err != nil {
		return nil, failed(id, err)
	}
	return in.Definition, nil
}

// Pause returns the pause that a token is of, which must be pending. The error has the code resume.invalidToken.
func (e *Engine) Pause(ctx context.Context, token string) (id, pause string, err error) {
	if e.TokenKey == nil {
		return "", "", clusterError("cluster.tokenKey",
			"this engine has no key for tokens\n  hint: answer by the names of run and pause")
	}
	if err := e.check(); err != nil {
		return "", "", err
	}
	if id, err = runOfToken(token); err != nil {
		return "", "", err
	}
	var sum checkpoint.Summary
	got, err := e.Client.QueryWorkflow(ctx, id, "", summaryQuery)
	if err == nil {
		err = got.Get(&sum)
	}
	if missing := (*serviceerror.NotFound)(nil); errors.As(err, &missing) {
		return "", "", invalidToken(errUnknownToken)
	}
	if err != nil {
		return "", "", failed(id, err)
	}
	pause, err = pauseOfToken(e.TokenKey, token, id, sum.Digest, pendingIn(&sum))
	return id, pause, err
}

// Check asks the server whether the namespace is there. The error has the code cluster.unavailable if the server cannot be
// reached, and cluster.namespace if it does not have the namespace.
func (e *Engine) Check(ctx context.Context, namespace string) error {
	_, err := e.Client.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: namespace})
	var missing *serviceerror.NamespaceNotFound
	var denied *serviceerror.PermissionDenied
	switch {
	case err == nil, errors.As(err, &denied): // who may run recipes need not see namespaces
		return nil
	case errors.As(err, &missing):
		return clusterError("cluster.namespace", "the server has no namespace %q\n"+
			"  hint: temporal operator namespace create --namespace %[1]s makes one", namespace)
	}
	return &runtime.Error{Category: runtime.CategoryInfra, Code: "cluster.unavailable", Err: err}
}
