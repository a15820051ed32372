package pipeline

import (
	"context"
	"errors"

	"github.com/effectively-once/once/internal/destination/stream"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
)

// errNoAnswer is the error of messages that the queue's answer leaves out, so that they do not
// count as sent.
var errNoAnswer = errors.New("the queue did not answer for each message")

// A feed puts messages on their ingress queues for the stream destinations.
type feed struct{ *Queues }

var _ stream.Queue = feed{}

// Enqueue sends in rounds, each with the next message of every group: if a batch had two of a
// group, the first could fail and the second not. See [stream.Queue].
func (f feed) Enqueue(ctx context.Context, messages []record.Message) []error {
	errs := make([]error, len(messages))
	stopped := map[record.GroupKey]error{}
	for _, round := range rounds(messages) {
		var going []int
		for _, i := range round {
			if errs[i] = stopped[messages[i].GroupKey()]; errs[i] == nil {
				going = append(going, i)
			}
		}
		f.enqueue(ctx, messages, going, errs)
		for _, i := range going {
			stopped[messages[i].GroupKey()] = errs[i]
		}
	}
	return errs
}

// rounds lists the places of the first messages of all groups, of the second ones, and so on.
func rounds(messages []record.Message) [][]int {
	var out [][]int
	taken := map[record.GroupKey]int{}
	for i := range messages {
		key := messages[i].GroupKey()
		n := taken[key]
		if taken[key]++; n == len(out) {
			out = append(out, nil)
		}
		out[n] = append(out[n], i)
	}
	return out
}

// enqueue sends messages of different groups together.
func (f feed) enqueue(ctx context.Context, messages []record.Message, going []int, errs []error) {
	byQueue := map[queue.Queue][]int{}
	for _, i := range going {
		to := f.entrance(&messages[i])
		byQueue[to] = append(byQueue[to], i)
	}
	for to, list := range byQueue {
		out := make([]queue.Message, len(list))
		for j, i := range list {
			out[j] = wire.ToQueue(messages[i])
		}
		results := sendEach(ctx, to, out)
		for j, i := range list {
			if errs[i] = errNoAnswer; len(results) == len(list) {
				errs[i] = results[j].Err
			}
		}
	}
}
