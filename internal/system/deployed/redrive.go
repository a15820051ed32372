package deployed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/admin/deadletter"
	"github.com/effectively-once/once/internal/system/function/tasks"
)

// patience is the number of calls of a function in a row that may end before they are through and
// without putting anything back: together they take less time than the dead letters that they have
// received stay hidden, so that each receives others.
const patience = 4

// ErrTooMany reports that a redrive found no match among the dead letters, and that there are more
// of them than it can look at.
var ErrTooMany = errors.New("too many other dead letters come before the selected ones: redrive or drop the others first")

// Redrive has the functions put dead letters back under their identities: SQS records the functions
// as senders, which are trusted as the HTTP API is, so that a message keeps any principal. Each
// function serves its own dead-letter queues, some dead letters by each call, until it has looked
// at all that were there at the beginning. If a message is refused again meanwhile, it stays. If
// Redrive fails in the middle, the letters put back so far stay put back, and a repetition
// continues.
func (s *System) Redrive(ctx context.Context, o admin.RedriveOptions) (admin.RedriveInfo, error) {
	queues, err := s.deadQueues(o.Queue)
	if err != nil {
		return admin.RedriveInfo{}, err
	}
	if o.By == "" && o.Answered {
		o.By, _ = s.stack.Principal(ctx) // it does not need the permission
	}
	there := s.depth(ctx, o)
	r := &redrive{system: s, options: o}
	for _, q := range queues {
		if err := r.run(ctx, q.name); err != nil {
			return r.info, err
		}
		if r.enough() {
			break
		}
	}
	r.info.Left = max(r.info.Left, there-r.info.Redriven-r.info.Answered-r.info.Failed)
	return r.info, nil
}

// depth returns about how many dead letters there are if not all of them will be looked at. If the
// caller may not read the number, it returns 0, and the letters that were not looked at are not
// counted.
func (s *System) depth(ctx context.Context, o admin.RedriveOptions) (n int) {
	if o.Max == 0 {
		return 0
	}
	stats, err := s.queueStats(ctx)
	if err != nil {
		return 0
	}
	for _, q := range stats {
		if q.DeadLetter && (o.Queue == "" || o.Queue == q.Queue) {
			n += q.Depth()
		}
	}
	return n
}

// A redrive is one run of Redrive.
type redrive struct {
	system  *System
	options admin.RedriveOptions
	until   time.Time // of the first answer
	info    admin.RedriveInfo
}

func (r *redrive) enough() bool { return r.options.Max > 0 && r.info.Redriven >= r.options.Max }

// run calls the function of a dead-letter queue until it is done.
func (r *redrive) run(ctx context.Context, queue string) error {
	function, err := r.system.stack.functionOf(queue)
	if err != nil {
		return err
	}
	for idle := 0; idle < patience; idle++ {
		out, err := r.call(ctx, function, queue)
		r.add(queue, out)
		if err != nil {
			return err
		}
		if out.Done || r.enough() {
			return nil
		}
		if out.Redriven > 0 {
			idle = -1
		}
	}
	return fmt.Errorf("redrive %s: %w", queue, ErrTooMany)
}

func (r *redrive) call(ctx context.Context, function, queue string) (out tasks.Redriven, err error) {
	filter := deadletter.Filter{Stream: r.options.Stream, Reason: r.options.Reason, ID: r.options.ID}
	task := tasks.Task{Once: tasks.Redrive, Queue: queue, Filter: filter, Until: r.until, Answered: r.options.Answered, By: r.options.By}
	if r.options.Max > 0 {
		task.Max = r.options.Max - r.info.Redriven
	}
	err = r.system.stack.do(ctx, function, task, &out)
	if err == nil {
		err = heeded(function, filter, out.Filter)
	}
	return out, err
}

func (r *redrive) add(queue string, out tasks.Redriven) {
	r.until = out.Until
	r.info.Redriven += out.Redriven
	r.info.Left += out.Left
	r.info.Answered += out.Answered
	r.info.Failed += out.Failed
	for _, f := range out.Failures {
		r.info.Failures = append(r.info.Failures, f.Info(queue))
	}
	if n := out.Failed - len(out.Failures); n > 0 {
		r.system.options.Log.Warn("more dead letters not redriven: see the log of the function", "queue", queue, "count", n)
	}
	r.system.options.Redriven(r.info)
}

// heeded returns an error if a function did not answer with the filter of its task: one that does
// not know a field of a filter takes more letters than it should.
func heeded(function string, asked, answered deadletter.Filter) error {
	if asked.Equal(answered) {
		return nil
	}
	return &SetupError{
		fmt.Sprintf("function %s did not confirm which dead letters were asked for, and may have taken others", function),
		"its version is another one than this command's: deploy the stack again with this version", nil,
	}
}

// functionOf names the function that redrives a dead-letter queue.
func (s *Stack) functionOf(queue string) (string, error) {
	name, function := "ProcessFunction", s.Outputs.ProcessFunction
	if queue == tasks.DeadPublish || queue == tasks.DeadPublishFIFO {
		name, function = "PublishFunction", s.Outputs.PublishFunction
	}
	if function == "" {
		return "", &SetupError{fmt.Sprintf("stack %s has no output %s", s.Name, name), "its functions can't put dead letters back yet: deploy it again", nil}
	}
	return function, nil
}
