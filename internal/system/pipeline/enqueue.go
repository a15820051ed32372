package pipeline

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/effectively-once/once/internal/delay"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
)

// errNoAnswer is the error of messages that the queue's answer leaves out, so that they do not
// count as sent.
var errNoAnswer = errors.New("the queue did not answer for each message")

// EnqueueAll puts messages on their ingress queues and returns an error for each.
//
// Messages of one group are put in their order; after one that failed, no later one of its group
// is. Messages whose order is that of their numbers are put in any order. Repeating a message is
// harmless.
//
// A message with a NotBefore in the future waits until then. It has no order: it stops no other
// message, and none stops it.
func (q *Queues) EnqueueAll(ctx context.Context, messages []record.Message) []error {
	errs := make([]error, len(messages))
	now := q.now()
	var items []delay.Item
	var later []int
	for i := range messages {
		if messages[i].Waits(now) {
			items, later = append(items, q.item(messages[i])), append(later, i)
		}
	}
	if len(items) == 0 {
		q.enqueueAll(ctx, messages, errs)
		return errs
	}
	for k, err := range q.postpone(ctx, items) {
		errs[later[k]] = err
	}
	var rest []record.Message
	var places []int
	for i := range messages {
		if _, waits := slices.BinarySearch(later, i); !waits {
			rest, places = append(rest, messages[i]), append(places, i)
		}
	}
	part := make([]error, len(rest))
	q.enqueueAll(ctx, rest, part)
	for k, i := range places {
		errs[i] = part[k]
	}
	return errs
}

// enqueueAll is EnqueueAll for messages that do not wait.
func (q *Queues) enqueueAll(ctx context.Context, messages []record.Message, errs []error) {
	if len(messages) == 1 {
		to := q.entrance(&messages[0])
		put(ctx, to, []queue.Message{toQueue(to, &messages[0])}, []int{0}, errs)
		return
	}
	byQueue := map[queue.Queue][]int{}
	for i := range messages {
		to := q.entrance(&messages[i])
		byQueue[to] = append(byQueue[to], i)
	}
	for to, places := range byQueue {
		switch {
		case queue.AllOrNone(to):
			putWhole(ctx, to, messages, places, errs)
		case queue.FIFO(to.Name()):
			putInRounds(ctx, to, messages, places, errs)
		default:
			putAll(ctx, to, messages, places, errs)
		}
	}
}

// errBehind is the error of a message behind one of its group that was not put.
var errBehind = errors.New("an earlier message of the group was not put on the queue")

// putWhole sends with one Send to a queue that takes all valid messages or none. A message that is
// not valid stops its group.
func putWhole(ctx context.Context, to queue.Queue, messages []record.Message, places []int, errs []error) {
	stopped := map[record.GroupKey]bool{}
	out, going := make([]queue.Message, 0, len(places)), make([]int, 0, len(places))
	for _, i := range places {
		m := toQueue(to, &messages[i])
		if errs[i] = m.Validate(to.Name()); errs[i] == nil && len(stopped) > 0 && stopped[messages[i].GroupKey()] {
			errs[i] = errBehind
		}
		if errs[i] != nil {
			stopped[messages[i].GroupKey()] = true
			continue
		}
		out, going = append(out, m), append(going, i)
	}
	put(ctx, to, out, going, errs)
}

// putInRounds sends the next message of every group in each round: if one call had two of a group,
// the first could fail and the second not.
func putInRounds(ctx context.Context, to queue.Queue, messages []record.Message, places []int, errs []error) {
	stopped := map[record.GroupKey]error{}
	for _, round := range rounds(messages, places) {
		var going []int
		for _, i := range round {
			if errs[i] = stopped[messages[i].GroupKey()]; errs[i] == nil {
				going = append(going, i)
			}
		}
		putAll(ctx, to, messages, going, errs)
		for _, i := range going {
			stopped[messages[i].GroupKey()] = errs[i]
		}
	}
}

// rounds lists the places of the first messages of all groups, of the second ones, and so on.
func rounds(messages []record.Message, places []int) [][]int {
	var out [][]int
	taken := map[record.GroupKey]int{}
	for _, i := range places {
		key := messages[i].GroupKey()
		n := taken[key]
		if taken[key]++; n == len(out) {
			out = append(out, nil)
		}
		out[n] = append(out[n], i)
	}
	return out
}

const (
	// sendSize is how many messages one request to a queue takes, see sqsqueue.
	sendSize = 10
	// sending is how many requests to a queue one call makes concurrently.
	sending = 8
)

// putAll sends messages whose order does not matter, in concurrent requests.
func putAll(ctx context.Context, to queue.Queue, messages []record.Message, places []int, errs []error) {
	var g errgroup.Group
	g.SetLimit(sending)
	for part := range slices.Chunk(places, sendSize) {
		out := make([]queue.Message, len(part))
		for j, i := range part {
			out[j] = toQueue(to, &messages[i])
		}
		g.Go(func() error {
			put(ctx, to, out, part, errs)
			return nil
		})
	}
	_ = g.Wait() // the errors are in errs
}

// put sends messages, whose errors have these places.
func put(ctx context.Context, to queue.Queue, out []queue.Message, places []int, errs []error) {
	if len(out) == 0 {
		return
	}
	results := to.Send(ctx, out)
	for j, i := range places {
		if errs[i] = errNoAnswer; len(results) == len(places) {
			errs[i] = results[j].Err
		}
	}
}

// toQueue returns a message for a queue. A standard queue has no use for message groups and
// deduplication ids; they would only take space in it.
func toQueue(to queue.Queue, m *record.Message) queue.Message {
	out := wire.ToQueue(*m)
	if !queue.FIFO(to.Name()) {
		out.Group, out.DedupID = "", ""
	}
	return out
}
