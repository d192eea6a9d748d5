package temporal

import (
	"strings"

	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// maxVersion is how many bytes the server takes of a queue or a version of workers with versions.
const maxVersion = 255

// deployment says which version of the code a worker is. The workers of one queue are one deployment. A run stays with the
// version that it began with, until another execution of its workflow continues: journals are read by later versions, but the
// history of an execution is followed by none.
func deployment(queue, build string) (o worker.DeploymentOptions, err error) {
	switch {
	case build == "":
		return o, nil
	case strings.ContainsAny(queue, ".:") || strings.HasPrefix(queue, "__") || len(queue) > maxVersion:
		return o, clusterError("runtime.invalid", "the task queue %q cannot have workers with versions: its name has "+
			"neither . nor :, does not begin with __, and has %d bytes at most", queue, maxVersion)
	case strings.Contains(build, ":") || strings.HasPrefix(build, "__") || len(build) > maxVersion:
		return o, clusterError("runtime.invalid", "the version %q of a worker has no :, does not begin with __, and has "+
			"%d bytes at most", build, maxVersion)
	}
	o.UseVersioning, o.DefaultVersioningBehavior = true, workflow.VersioningBehaviorPinned
	o.Version = worker.WorkerDeploymentVersion{DeploymentName: queue, BuildID: build}
	return o, nil
}

// outdated reports whether the run is to go on with another version of the workers. Servers before 1.31 never say so.
func (r *run) outdated() bool {
	return workflow.GetInfo(r.free).GetTargetWorkerDeploymentVersionChanged()
}

// mostMoves is how often a run that is paused moves to another version: a server that always had one would keep it busy.
const mostMoves = 3

// moves reports whether a paused run is to continue in another execution only because of the version.
func (r *run) moves() bool { return r.outdated() && r.moved < mostMoves && r.ctx.Err() == nil }

// versioned says with which version of the workers the next execution begins.
func (r *run) versioned() (o workflow.ContinueAsNewErrorOptions) {
	if r.outdated() {
		o.InitialVersioningBehavior = workflow.ContinueAsNewVersioningBehaviorAutoUpgrade
	}
	return o
}
