package temporal

import (
	"context"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/braise-run/braise/trace"
)

// The search attributes of runs whose first worker has WorkerOptions.SearchAttributes, both of type Keyword: the name of the
// recipe; and running, or how the run ended, paused included.
const (
	RecipeAttribute = "BraiseRecipe"
	StatusAttribute = "BraiseStatus"
)

var (
	recipeKey = temporal.NewSearchAttributeKeyKeyword(RecipeAttribute)
	statusKey = temporal.NewSearchAttributeKeyKeyword(StatusAttribute)
)

// registered asks the server for runs by the search attributes. One that nobody has registered would have the tasks of runs
// fail forever.
func registered(ctx context.Context, c client.Client) error {
	_, err := c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{PageSize: 1,
		Query: RecipeAttribute + " = 'none' AND " + StatusAttribute + " = 'none'"})
	if err != nil {
		return clusterError("cluster.searchAttributes", "the search attributes %s and %s cannot be used: %w\n  hint: "+
			"temporal operator search-attribute create --name %[1]s --type Keyword --name %[2]s --type Keyword registers them",
			RecipeAttribute, StatusAttribute, err)
	}
	return nil
}

// found has the run found by its recipe and a status.
func (r *run) found(status string) {
	if !r.offer.Terms.Search || r.status == status {
		return
	}
	r.status = status
	set := []temporal.SearchAttributeUpdate{recipeKey.ValueSet(r.program.Recipe.Name), statusKey.ValueSet(status)}
	if err := workflow.UpsertTypedSearchAttributes(r.free, set...); err != nil {
		panic(err)
	}
}

const (
	traceActivity = "braise.trace"
	sinkTime      = 5 * time.Second // that the sinks of a worker have for the events of a leg
)

// report gives the events of a leg to the sinks of this worker, in an activity that leaves nothing of them in the history.
func (r *run) report(events []trace.Event) {
	if !r.offer.Terms.Traced {
		return
	}
	ctx := workflow.WithLocalActivityOptions(r.free, workflow.LocalActivityOptions{StartToCloseTimeout: 2 * sinkTime,
		RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1}})
	if err := workflow.ExecuteLocalActivity(ctx, traceActivity, r.id, events).Get(r.free, nil); err != nil {
		r.warn("the sinks of the worker did not get all events", "", "error", err)
	}
}

// trace is the activity that hands events on to the sinks of the runtime.
func (w *Worker) trace(ctx context.Context, run string, events []trace.Event) error {
	sinks := trace.NewFanout(w.rt.Trace, run)
	for _, e := range events {
		sinks.Emit(e, nil)
	}
	for _, f := range sinks.Close(sinkTime) {
		activity.GetLogger(ctx).Warn("a trace sink failed", "run", run, "error", f.Err)
	}
	return nil
}
