package admission

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// renewEpochs is how old the record of an epoch in use may become before it is written again. It is
// less if the record is kept for less than ten days.
const renewEpochs = 24 * time.Hour

// IssueEpoch returns an epoch for the source of a message in its group that no call has returned
// before. From then on the messages of the source's earlier epochs are refused, see
// [Issuer.CheckEpochs]. If the error wraps [record.ErrConflict], another call was first. A caller
// that does not get the answer calls again, and gets a higher epoch.
//
// If after is not nil, the source's newest epoch must be that one, or 0 if there is none; otherwise
// the error is a [*record.NewerEpochError]. Without it, a copy of a request that arrives late would
// fence the epoch that its caller has got since.
//
// The epoch is the record's last one plus 1, or the time in microseconds if that is higher. So it
// is not issued twice after the record has expired either, unless the clock then goes back by more
// than the retention of groups. An epoch counts as issued only if this call has written it.
func (i *Issuer) IssueEpoch(ctx context.Context, m record.Message, after *uint64) (uint64, error) {
	source := record.NewSourceEpoch(&m)
	g, err := i.source(ctx, &source)
	if err != nil {
		return 0, fmt.Errorf("issue epoch: %w", err)
	}
	if after != nil && *after != source.Epoch {
		return 0, fmt.Errorf("issue epoch: %w", &record.NewerEpochError{Epoch: source.Epoch})
	}
	now := i.cfg.Now()
	if source.Epoch = source.Following(now); source.Epoch > record.LastIssuedEpoch {
		return 0, errors.New("issue epoch: the clock is too far ahead")
	}
	if err := i.writeEpoch(ctx, source, &g, now); err != nil {
		return 0, fmt.Errorf("issue epoch: %w", err)
	}
	return source.Epoch, nil
}

// source loads the record of a source.
func (i *Issuer) source(ctx context.Context, s *record.SourceEpoch) (record.Group, error) {
	groups, _, err := i.cfg.Store.Load(ctx, []record.GroupKey{s.Key()}, nil)
	if err != nil {
		return record.Group{}, fmt.Errorf("load epoch: %w", err)
	}
	return groups[0], s.Read(&groups[0])
}

// writeEpoch writes the record of a source, if it is still the loaded one.
func (i *Issuer) writeEpoch(ctx context.Context, s record.SourceEpoch, loaded *record.Group, now time.Time) error {
	retention := i.cfg.Streams.GroupRetention(s.Stream)
	next := loaded.Clone()
	next.Key, next.State = s.Key(), s.State()
	next.Succeed(loaded, now, retention)
	next.Expires = s.Expires(now, retention)
	if err := i.cfg.Store.Commit(ctx, record.Commit{Loaded: *loaded, Next: next, Attempt: i.cfg.NewID()}); err != nil {
		return fmt.Errorf("write epoch: %w", err)
	}
	return nil
}

// CheckEpochs refuses the messages of epochs that were issued and are no longer the newest of their
// sources. It returns an error for each message: nil, a [*record.RefusedError], or an error of the
// store. A message that it lets pass may still be late: the number of its source decides when it is
// processed.
//
// It renews the record of an epoch that is used, so that the epoch is remembered for as long as a
// group without state remembers the numbers of its source.
func (i *Issuer) CheckEpochs(ctx context.Context, messages []record.Message) []error {
	errs, err := i.checkEpochs(ctx, messages)
	if errors.Is(err, record.ErrCorrupt) && len(messages) > 1 {
		// check each alone, so that one corrupt record does not block the others
		for n := range messages {
			errs[n] = i.CheckEpochs(ctx, messages[n:n+1])[0]
		}
		return errs
	}
	for n := range messages {
		if err != nil && issuedTo(&messages[n]) {
			errs[n] = err
		}
	}
	return errs
}

// checkEpochs is CheckEpochs. An error of the store is that of all messages.
func (i *Issuer) checkEpochs(ctx context.Context, messages []record.Message) ([]error, error) {
	errs := make([]error, len(messages))
	places := map[record.SourceEpoch]int{} // in keys
	var keys []record.GroupKey
	for n := range messages {
		source := record.NewSourceEpoch(&messages[n])
		if _, seen := places[source]; !seen && issuedTo(&messages[n]) {
			places[source] = len(keys)
			keys = append(keys, source.Key())
		}
	}
	if len(keys) == 0 {
		return errs, nil
	}
	groups, _, err := i.cfg.Store.Load(ctx, keys, nil)
	if err != nil {
		return errs, fmt.Errorf("load epochs: %w", err)
	}
	type used struct {
		source record.SourceEpoch
		epoch  uint64
	}
	known := map[used]error{}
	for n := range messages {
		if !issuedTo(&messages[n]) {
			continue
		}
		u := used{record.NewSourceEpoch(&messages[n]), messages[n].Epoch}
		if _, checked := known[u]; !checked {
			known[u] = i.checkEpoch(ctx, u.source, &groups[places[u.source]], u.epoch)
		}
		errs[n] = known[u]
	}
	return errs, nil
}

// issuedTo reports whether a message has an epoch that only the system issues to its source.
func issuedTo(m *record.Message) bool { return record.EpochIssued(m.Epoch) && m.Source != "" }

func (i *Issuer) checkEpoch(ctx context.Context, s record.SourceEpoch, g *record.Group, epoch uint64) error {
	switch err := s.Read(g); {
	case err != nil:
		return err
	case s.Epoch > epoch:
		return &record.RefusedError{Reason: record.ReasonStaleEpoch, Detail: "a newer epoch of its source was issued"}
	case s.Epoch < epoch:
		return &record.RefusedError{Reason: record.ReasonUnknown, Detail: "its epoch was not issued here, or is forgotten"}
	case i.cfg.Restores.Forgot(epoch):
		return &record.RefusedError{Reason: record.ReasonUnknown, Detail: "its epoch is older than a restore of the system, which may have lost messages of it"}
	}
	now := i.cfg.Now()
	retention := i.cfg.Streams.GroupRetention(s.Stream)
	if g.Expires.Sub(now) >= retention-min(renewEpochs, retention/10) {
		return nil
	}
	// Another call has renewed it, or has issued a newer epoch just now.
	if err := i.writeEpoch(ctx, s, g, now); err != nil && !errors.Is(err, record.ErrConflict) {
		return err
	}
	return nil
}
