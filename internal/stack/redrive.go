package stack

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/effectively-once/once/internal/admin"
	system "github.com/effectively-once/once/internal/lambda"
)

// patience is how many calls of a function in a row may come to no end and put nothing back: together they last less than what they have seen stays hidden, so that each
// sees other dead letters.
const patience = 4

// ErrTooMany says that a redrive has not found what it looks for among more dead letters than it can look at.
var ErrTooMany = errors.New("too many other dead letters stand before those that are to be put back: look for other reasons first")

// Redrive has the functions put dead letters back under their identities: what SQS calls theirs is believed as the front door's is, whatever principal a message has. Each function
// serves its own dead-letter queues, some of it by each call, until all that was there at the beginning has been looked at. What is refused again while it runs is left.
// An error ends it in the middle: what was put back is, and repeating it goes on.
func (s *System) Redrive(ctx context.Context, o admin.RedriveOptions) (admin.RedriveInfo, error) {
	queues, err := s.deadQueues(o.Queue)
	if err != nil {
		return admin.RedriveInfo{}, err
	}
	there := s.depth(ctx, o)
	r := &redrive{system: s, options: o}
	for _, q := range queues {
		if err := r.run(ctx, q.Name()); err != nil {
			return r.info, err
		}
		if r.enough() {
			break
		}
	}
	r.info.Left = max(r.info.Left, there-r.info.Redriven-r.info.Failed)
	return r.info, nil
}

// depth is about how many dead letters there are, where not all of them will be looked at. Whoever may not ask is not told of those that nobody looked at.
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
		if err != nil {
			return err
		}
		r.add(queue, out)
		if out.Done || r.enough() {
			return nil
		}
		if out.Redriven > 0 {
			idle = -1
		}
	}
	return fmt.Errorf("redrive %s: %w", queue, ErrTooMany)
}

func (r *redrive) call(ctx context.Context, function, queue string) (out system.Redriven, err error) {
	task := system.Task{Once: system.TaskRedrive, Queue: queue, Reason: r.options.Reason, Until: r.until}
	if r.options.Max > 0 {
		task.Max = r.options.Max - r.info.Redriven
	}
	err = r.system.stack.do(ctx, function, task, &out)
	return out, err
}

func (r *redrive) add(queue string, out system.Redriven) {
	r.until = out.Until
	r.info.Redriven += out.Redriven
	r.info.Left += out.Left
	r.info.Failed += out.Failed
	for _, f := range out.Failures {
		r.system.options.Log.Warn("dead letter not redriven", "queue", queue, "message_id", f.MessageID, "error", f.Error)
	}
	if n := out.Failed - len(out.Failures); n > 0 {
		r.system.options.Log.Warn("more dead letters not redriven: the log of the function tells why", "queue", queue, "count", n)
	}
	r.system.options.Redriven(r.info)
}

// functionOf names the function that redrives a dead-letter queue.
func (s *Stack) functionOf(queue string) (string, error) {
	name, function := "ProcessFunction", s.Outputs.ProcessFunction
	if queue == system.DeadPublish || queue == system.DeadPublishFIFO {
		name, function = "PublishFunction", s.Outputs.PublishFunction
	}
	if function == "" {
		return "", &SetupError{fmt.Sprintf("stack %s has no output %s", s.Name, name), "its functions can't put dead letters back yet: deploy it again", nil}
	}
	return function, nil
}
