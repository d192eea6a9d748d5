package temporal

import "time"

// The limits of runs on a cluster.
const (
	maxStart    = 1 << 20          // of a definition, and of the inputs, in bytes
	maxPayload  = 1 << 20          // of an output, or of the request of one call
	maxValue    = 1 << 20          // of an answer or a value
	maxSaid     = 128 << 10        // of an update: the server gives up to ten to one task, which sends all of them back
	maxUploads  = 16 << 20         // of values that come in parts, until they are whole
	maxAtOnce   = 4                // values that come to a run in parts, and updates of a run that a process makes
	maxLocal    = 16 << 10         // of an output that a worker keeps to itself until its task ends, see Options.LocalReads
	maxOffer    = 512 << 10        // of what a worker offers
	maxTask     = 1 << 20          // of what one workflow task sends
	maxRun      = 32 << 20         // of what a run keeps
	maxTrace    = 512 << 10        // of the outcome of a paused run with its trace, for the next execution
	maxCarried  = 1_900_000        // of the journal that an execution hands to the next, coded
	maxParallel = 200              // calls under way
	maxEvents   = 10_240           // of one execution
	maxCall     = 24 * time.Hour   // of an attempt without a timeout
	maxWaiting  = 8 << 20          // of a history that goes on because a value is not whole yet
	uploadTime  = 30 * time.Second // for the next part of a value: then the history does not go on because of it
	mostDropped = 10               // how often what a run is told is told again because the task failed that was to take it
	lostWorkers = 5                // how often a call that may be repeated is made again because its worker was lost
)

// A worker that is lost is noticed after heartbeat; beat is how often a worker says that it lives. Tests have less time.
var (
	heartbeat = 10 * time.Second
	beat      = heartbeat / 3
)

// outage is how long a server may be away until nobody waits for it any more. Tests have less time.
var outage = 5 * time.Minute
