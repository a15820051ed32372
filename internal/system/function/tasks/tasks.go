// Package tasks is what the functions do outside their queues, for a schedule and for operators:
// the requests and their answers.
package tasks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/admin/deadletter"
)

// A Task is a request to a function outside its queues:
//
//   - {"once": "sweep"} sends the ticks of schedules, moves delayed messages that are due soon to
//     their queues, acts on gaps in the groups that have messages held, which an index names, and
//     continues the ends of streams
//   - {"once": "sweep-all"} reads the table of groups, as far as time allows, and finishes the work of
//     crashed workers
//   - {"once": "redrive", "queue": "ingress-dead"} puts dead letters back
//   - {"once": "drop", "queue": "ingress-dead", "id": "order-1"} deletes them
//   - {"once": "skip", "stream": "orders", "group": "customer-7", "number": 3} makes a pending effect
//     a dead letter
//
// The schedule asks for sweeps, an operator for the others.
type Task struct {
	Once string `json:"once"`

	// The next fields belong to a redrive and to a drop. Queue is the dead-letter queue: one of
	// [DeadIngress] and the others that the function serves. Required.
	Queue string `json:"queue,omitempty"`
	// Filter selects dead letters. Defaults to all; a drop needs an id or a reason.
	deadletter.Filter
	// Max is the largest number of dead letters to put back. Defaults to 1000, which is
	// also the most.
	Max int `json:"max,omitempty"`
	// Until keeps out messages that were sent later: the call before may have put them back, and
	// they were refused again. Defaults to now.
	Until time.Time `json:"until,omitzero"`
	// Answered redrives the dead letters whose callers were answered, too.
	Answered bool `json:"answered,omitempty"`
	// By names the operator in the log.
	By string `json:"by,omitempty"`

	// Group and Number name the effect of a skip, with the Stream of the filter.
	Group  string `json:"group,omitempty"`
	Number uint64 `json:"number,omitempty"`
}

// Read returns the task in an event, and false if the event has none. A task with a field that
// this version does not know is refused: the field may spare dead letters.
func Read(event json.RawMessage) (task Task, ok bool, err error) {
	var named struct{ Once string }
	if err := json.Unmarshal(event, &named); err != nil || named.Once == "" {
		return Task{}, false, nil //nolint:nilerr // an event of SQS, or no event at all
	}
	d := json.NewDecoder(bytes.NewReader(event))
	d.DisallowUnknownFields()
	if err := d.Decode(&task); err != nil {
		return Task{}, true, fmt.Errorf("read task %s: %w; the function and the caller must have the same version", named.Once, err)
	}
	return task, true, nil
}

// The tasks.
const (
	Sweep    = "sweep"
	SweepAll = "sweep-all"
	Redrive  = "redrive"
	Drop     = "drop"
	Skip     = "skip"
)

// The dead-letter queues, by the names that people give them.
const (
	DeadIngress     = "ingress-dead"      // served by Process
	DeadIngressFIFO = "ingress-dead.fifo" // served by Process
	DeadPublish     = "publish-dead"      // served by Publish
	DeadPublishFIFO = "publish-dead.fifo" // served by Publish
)

// A Swept counts the work of a sweep.
type Swept struct {
	// Groups were visited to the end; Failed groups returned errors.
	Groups int `json:"groups"`
	Failed int `json:"failed"`
	// Moved is how many delayed messages were moved to their queues.
	Moved int `json:"moved,omitempty"`
	// Strays are deleted objects: staged blobs and claims that no group knows.
	Strays int `json:"strays"`
	// Done is false if time ended the sweep. That is no error: each sweep begins elsewhere, so that
	// several reach all.
	Done bool `json:"done"`
}

// Redriven is the answer to one call of a redrive. The caller repeats the call until one is done.
type Redriven struct {
	// Redriven dead letters were put back. The others stay: Left did not match or came after Until,
	// the callers of Answered were answered, and Failed could not be put back.
	Redriven int `json:"redriven"`
	Left     int `json:"left"`
	Answered int `json:"answered"`
	Failed   int `json:"failed"`
	// Failures hold the reasons of the first failures.
	Failures []deadletter.Failure `json:"failures,omitempty"`
	// Filter is that of the task. A caller checks it.
	Filter deadletter.Filter `json:"filter,omitzero"`
	// Until is for the next call: the beginning of the first one, by the clock of the functions.
	Until time.Time `json:"until"`
	// Done is false if the call ended by time, or with as many dead letters as one call handles.
	// The dead letters that it received and left are then hidden for [deadletter.Visibility], so
	// that the next call sees others.
	Done bool `json:"done"`
}

// Dropped is the answer to one call of a drop. The caller repeats the call until one is done.
type Dropped struct {
	Dropped int                `json:"dropped"`
	Letters []admin.DeadLetter `json:"letters,omitempty"`
	// Filter is that of the task, Until is for the next call, and Done ends the calls, as in
	// [Redriven].
	Filter deadletter.Filter `json:"filter,omitzero"`
	Until  time.Time         `json:"until"`
	Done   bool              `json:"done"`
}

// Skipped is the answer to a skip. If there are no destinations, the effect is not pending.
type Skipped struct {
	Destinations []string `json:"destinations"`
}
