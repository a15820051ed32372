package deployed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/schedule"
	"github.com/effectively-once/once/internal/system"
)

// Stats counts the unfinished work. It reads both tables from end to end.
func (s *System) Stats(ctx context.Context) (admin.Stats, error) {
	p, err := s.configured(ctx)
	if err != nil {
		return admin.Stats{}, err
	}
	stats, err := admin.Tally(ctx, s.store, p.config.StreamNames(), s.options.Now(), s.passedOver)
	if err != nil {
		return admin.Stats{}, explain(err)
	}
	if stats.Queues, err = s.queueStats(ctx); err != nil {
		return admin.Stats{}, err
	}
	if len(p.config.Ingress) == 0 {
		return stats.Total(), nil
	}
	sources, err := s.stack.sources(ctx)
	if err != nil {
		return admin.Stats{}, err
	}
	for _, q := range sources {
		q.Queue = "source " + q.Queue // a source may have the name of another queue
		stats.Queues = append(stats.Queues, q)
	}
	return stats.Total(), nil
}

// passedOver logs records that can't be read; the readable ones must not wait for them.
func (s *System) passedOver(err error) { s.options.Log.Error("records passed over", "error", err) }

func (s *System) queueStats(ctx context.Context) ([]admin.QueueStats, error) {
	var out []admin.QueueStats
	work, dead := s.stack.Outputs.work(), s.stack.Outputs.dead()
	for i, p := range slices.Concat(work, dead) {
		q, err := s.stack.queueStats(ctx, p)
		if err != nil {
			return nil, err
		}
		q.DeadLetter = i >= len(work)
		out = append(out, q)
	}
	return out, nil
}

// queueStats counts the messages of one queue.
func (s *Stack) queueStats(ctx context.Context, p place) (admin.QueueStats, error) {
	a, err := s.queueAttributes(ctx, p.url)
	if err != nil {
		return admin.QueueStats{}, err
	}
	number := func(name types.QueueAttributeName) int {
		n, _ := strconv.Atoi(a[string(name)]) // one that is missing counts as nothing
		return n
	}
	return admin.QueueStats{
		Queue:    p.name,
		Visible:  number(types.QueueAttributeNameApproximateNumberOfMessages),
		InFlight: number(types.QueueAttributeNameApproximateNumberOfMessagesNotVisible),
		Delayed:  number(types.QueueAttributeNameApproximateNumberOfMessagesDelayed),
	}, nil
}

func (s *Stack) queueAttributes(ctx context.Context, url string) (map[string]string, error) {
	out, err := s.sqs.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: &url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll}})
	if err != nil {
		return nil, fmt.Errorf("read attributes of queue %s: %w", path.Base(url), explain(err))
	}
	return out.Attributes, nil
}

// Groups lists groups of a stream, in DynamoDB's order. It reads the table from the group on, the
// records of other streams included, until it has as many as asked for.
func (s *System) Groups(ctx context.Context, o admin.GroupsOptions) ([]admin.GroupInfo, error) {
	p, err := s.configured(ctx)
	if err != nil {
		return nil, err
	}
	if _, ok := p.engine.Stream(o.Stream); !ok {
		return nil, s.unknown(o.Stream)
	}
	groups, err := admin.ListGroups(ctx, s.store, o, s.passedOver)
	return groups, explain(err)
}

// unknown returns the error for a stream that the configuration does not have. If the caller named
// a configuration, most likely it differs from the deployed one.
func (s *System) unknown(stream string) error {
	if s.options.Config == nil {
		return fmt.Errorf("stream %s: %w in the deployed configuration", stream, admin.ErrNotFound)
	}
	return fmt.Errorf("stream %s: %w in the configuration that --config names; without --config the deployed one is read", stream, admin.ErrNotFound)
}

// Group returns one group, by one read. It needs the configuration only if there is no such group.
func (s *System) Group(ctx context.Context, stream, group string) (admin.GroupInfo, error) {
	var failed error
	settings := func(name string) (record.Stream, bool) {
		p, err := s.configured(ctx)
		if err != nil {
			failed = err
			return record.Stream{}, false
		}
		return p.engine.Stream(name)
	}
	info, err := admin.ReadGroup(ctx, s.store, record.GroupKey{Stream: stream, Group: group}, settings, nil)
	return info, cmp.Or(failed, explain(err))
}

// Message returns the state of one message, by one to four reads for each principal that is tried.
func (s *System) Message(ctx context.Context, stream, id string) (admin.MessageInfo, error) {
	principals, err := s.principals(ctx)
	if err != nil {
		return admin.MessageInfo{}, err
	}
	if schedule.IsID(id) && s.options.Principal == nil {
		principals = append(principals, schedule.Principal)
	}
	for _, principal := range principals {
		info, err := s.message(ctx, record.Message{Principal: principal, Stream: stream, ID: id})
		if !errors.Is(err, errUnknown) {
			return info, err
		}
	}
	return admin.MessageInfo{}, fmt.Errorf("message %s of stream %s: %w under the principals %q; name another one with --principal", id, stream, admin.ErrNotFound, principals)
}

// errUnknown is returned for a message of which there is no record.
var errUnknown = errors.New("no record of the message")

func (s *System) message(ctx context.Context, m record.Message) (admin.MessageInfo, error) {
	p, err := s.configured(ctx)
	if err != nil {
		return admin.MessageInfo{}, err
	}
	state, err := p.engine.Status(ctx, m)
	switch {
	case errors.Is(err, record.ErrNoStream):
		return admin.MessageInfo{}, s.unknown(m.Stream)
	case err != nil:
		return admin.MessageInfo{}, explain(err)
	case state.Status == admission.StatusUnknown:
		return admin.MessageInfo{}, errUnknown
	}
	known, _ := p.engine.Stream(m.Stream)
	var failing *system.Waiting // empty, because the deployed functions register no failures
	info, err := admin.MessageOf(ctx, s.store, m, state, known.Admission != record.BySequence, s.options.Now(), failing.Of)
	return info, explain(err)
}

// ByHash returns one message by its hash in the log. It reads the tables from their beginning until
// it finds the message; messages that are only in a queue are not found.
func (s *System) ByHash(ctx context.Context, o admin.HashOptions) (admin.MessageInfo, error) {
	found, err := admin.Search(ctx, s.store, o, s.passedOver)
	if err != nil {
		return admin.MessageInfo{}, explain(err)
	}
	if found.Message.ID == "" {
		return found.Info(), nil
	}
	info, err := s.message(ctx, found.Message)
	if errors.Is(err, errUnknown) {
		return info, o.NotFound()
	}
	return info, err
}

func (s *System) principals(ctx context.Context) ([]string, error) {
	if s.options.Principal != nil {
		return []string{*s.options.Principal}, nil
	}
	own, err := s.stack.Principal(ctx)
	if err != nil {
		return nil, err
	}
	return []string{own, ""}, nil
}
