package stack

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/admission"
	"github.com/effectively-once/once/internal/record"
)

// listBatch is how many records a page of a listing has at most.
const listBatch = 500

// Stats counts what is under way. It reads both tables from end to end.
func (s *System) Stats(ctx context.Context) (admin.Stats, error) {
	byStream := map[string]*admin.StreamStats{}
	of := func(name string) *admin.StreamStats {
		if byStream[name] == nil {
			byStream[name] = &admin.StreamStats{Stream: name}
		}
		return byStream[name]
	}
	for _, name := range s.options.Config.StreamNames() {
		of(name)
	}
	err := s.eachGroup(ctx, func(g *record.Group) error {
		count(of(g.Key.Stream), g)
		return nil
	})
	if err == nil {
		err = s.countTokens(ctx, of)
	}
	if err != nil {
		return admin.Stats{}, err
	}
	queues, err := s.queueStats(ctx)
	if err != nil {
		return admin.Stats{}, err
	}
	stats := admin.Stats{Queues: queues}
	for _, name := range slices.Sorted(maps.Keys(byStream)) {
		stats.Streams = append(stats.Streams, *byStream[name])
	}
	return stats.Total(), nil
}

func count(st *admin.StreamStats, g *record.Group) {
	st.Groups++
	st.Held += heldCount(g)
	for _, p := range g.Pending {
		if len(p.Effects) > 0 {
			st.Pending++
		}
	}
}

func (s *System) eachGroup(ctx context.Context, do func(*record.Group) error) error {
	for after := (record.GroupKey{}); ; {
		groups, err := s.store.Groups(ctx, "", after, listBatch)
		if err != nil {
			return Explain(err)
		}
		if len(groups) == 0 {
			return nil
		}
		for i := range groups {
			if err := do(&groups[i]); err != nil {
				return err
			}
		}
		after = groups[len(groups)-1].Key
	}
}

func (s *System) countTokens(ctx context.Context, of func(string) *admin.StreamStats) error {
	for after := (record.TokenKey{}); ; {
		tokens, err := s.store.Tokens(ctx, after, listBatch)
		if err != nil {
			return Explain(err)
		}
		if len(tokens) == 0 {
			return nil
		}
		for _, t := range tokens {
			switch st := of(t.Stream); t.State {
			case record.Issued:
				st.Issued++
			case record.Leased:
				if t.Lease.After(s.options.Now()) {
					st.Leased++
				}
			case record.Done:
				st.Done++
			case record.Absent:
			}
		}
		after = tokens[len(tokens)-1].Key
	}
}

func (s *System) queueStats(ctx context.Context) ([]admin.QueueStats, error) {
	var out []admin.QueueStats
	work, dead := s.stack.Outputs.work(), s.stack.Outputs.dead()
	for i, p := range slices.Concat(work, dead) {
		a, err := s.stack.queueAttributes(ctx, p.url)
		if err != nil {
			return nil, err
		}
		number := func(name types.QueueAttributeName) int {
			n, _ := strconv.Atoi(a[string(name)]) // one that is missing counts as nothing
			return n
		}
		out = append(out, admin.QueueStats{
			Queue: p.name, DeadLetter: i >= len(work),
			Visible:  number(types.QueueAttributeNameApproximateNumberOfMessages),
			InFlight: number(types.QueueAttributeNameApproximateNumberOfMessagesNotVisible),
			Delayed:  number(types.QueueAttributeNameApproximateNumberOfMessagesDelayed),
		})
	}
	return out, nil
}

func (s *Stack) queueAttributes(ctx context.Context, url string) (map[string]string, error) {
	out, err := s.sqs.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: &url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll}})
	if err != nil {
		return nil, fmt.Errorf("read attributes of queue %s: %w", path.Base(url), Explain(err))
	}
	return out.Attributes, nil
}

// Groups lists groups of a stream, in DynamoDB's order. It reads the table from the group on, the records of other streams included, until it has as many as asked for.
func (s *System) Groups(ctx context.Context, o admin.GroupsOptions) ([]admin.GroupInfo, error) {
	if _, ok := s.engine.Stream(o.Stream); !ok {
		return nil, s.unknown(o.Stream)
	}
	if o.Limit == 0 {
		o.Limit = admin.DefaultLimit
	}
	groups, err := s.store.Groups(ctx, o.Stream, record.GroupKey{Stream: o.Stream, Group: o.After}, o.Limit)
	if err != nil {
		return nil, Explain(err)
	}
	out := make([]admin.GroupInfo, len(groups))
	for i := range groups {
		out[i] = groupInfo(&groups[i])
	}
	return out, nil
}

// unknown says that the configuration has no such stream: most likely it is another one than what was deployed.
func (s *System) unknown(stream string) error {
	return fmt.Errorf("stream %s: %w in the configuration; name the one that was deployed with --config", stream, admin.ErrNotFound)
}

// Group gives one group, by one read.
func (s *System) Group(ctx context.Context, stream, group string) (admin.GroupInfo, error) {
	groups, _, err := s.store.Load(ctx, []record.GroupKey{{Stream: stream, Group: group}}, nil)
	if err != nil {
		return admin.GroupInfo{}, Explain(err)
	}
	if groups[0].Version == 0 {
		return admin.GroupInfo{}, fmt.Errorf("group %s/%s: %w", stream, group, admin.ErrNotFound)
	}
	return groupInfo(&groups[0]), nil
}

// Message gives what is known of one message, by one or two reads for each principal that is tried.
func (s *System) Message(ctx context.Context, stream, id string) (admin.MessageInfo, error) {
	principals, err := s.principals(ctx)
	if err != nil {
		return admin.MessageInfo{}, err
	}
	for _, principal := range principals {
		state, err := s.engine.Status(ctx, record.Message{Principal: principal, Stream: stream, ID: id})
		switch {
		case errors.Is(err, record.ErrNoStream):
			return admin.MessageInfo{}, s.unknown(stream)
		case err != nil:
			return admin.MessageInfo{}, Explain(err)
		case state.Status != admission.StatusUnknown:
			return messageInfo(stream, id, state), nil
		}
	}
	return admin.MessageInfo{}, fmt.Errorf("message %s of stream %s: %w under the principals %q; name another one with --principal", id, stream, admin.ErrNotFound, principals)
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

func messageInfo(stream, id string, state admission.State) admin.MessageInfo {
	info := admin.MessageInfo{Stream: stream, ID: id, Group: state.Group, Status: string(state.Status), Reason: string(state.Reason)}
	if r := state.Reply; r != nil {
		info.Reply = &admin.ReplyInfo{Status: r.Status, Header: r.Header}
		info.Reply.SetBody(r.Body)
	}
	if !state.Token.Expires.IsZero() {
		info.Expires = &state.Token.Expires
	}
	return info
}

func groupInfo(g *record.Group) admin.GroupInfo {
	info := admin.GroupInfo{
		Stream: g.Key.Stream, Group: g.Key.Group, Version: g.Version, LastNumber: g.Last, Held: heldCount(g), Pending: []admin.Pending{}, Sources: []admin.SourceInfo{},
	}
	for _, p := range g.Pending {
		info.Pending = append(info.Pending, admin.Pending{Number: p.Number, ID: p.Identity, Attempt: p.Attempt, Effects: len(p.Effects), Sent: len(p.Sent)})
	}
	for _, key := range slices.Sorted(maps.Keys(g.Sources)) {
		info.Sources = append(info.Sources, sourceInfo(key, g.Sources[key]))
	}
	info.SetState(g.State)
	if !g.Expires.IsZero() {
		info.Expires = &g.Expires
	}
	return info
}

func sourceInfo(key string, src record.Source) admin.SourceInfo {
	source := record.PlainSource(key)
	info := admin.SourceInfo{
		Principal: strings.TrimSuffix(strings.TrimSuffix(key, source), "\x1f"), Source: source, Epoch: src.Epoch, Next: src.Next,
		Held: ranges(src.Held), Skipped: ranges(src.Skipped),
	}
	if !src.GapSince.IsZero() {
		info.GapSince = &src.GapSince
	}
	return info
}

func ranges(r record.Ranges) []admin.Range {
	out := make([]admin.Range, len(r))
	for i, x := range r {
		out[i] = admin.Range(x)
	}
	return out
}

func heldCount(g *record.Group) int {
	n := 0
	for _, src := range g.Sources {
		n += src.Held.Len()
	}
	return n
}
