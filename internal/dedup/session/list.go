package session

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/effectively-once/once/internal/record"
)

// A Named session is one of a list.
type Named struct {
	ID ID
	Description
}

// A Listing is a part of a list of sessions.
type Listing struct {
	Sessions []Named
	// Next is the name after which the list continues, or empty if it is complete.
	Next string
}

// ErrNoList says that the sessions of the log of a group can't be listed, see [Config.Records].
var ErrNoList = errors.New("the sessions of the log of a group can't be listed here")

// List returns sessions of the pool of a stream, or of the log of a group, by their keys, after a
// name. It leaves out sessions that have expired. If [Config.Records] is nil, it returns only the
// sessions to which the pool has dealt entries, and that are not retired; and of the log of a group
// it returns [ErrNoList].
func (s *Sessions) List(ctx context.Context, stream, group, after string, limit int) (out Listing, err error) {
	all := ID{Stream: stream, Group: group}
	var p pool
	if all.pooled() {
		_, p, err = s.pool(ctx, stream)
	}
	switch {
	case err != nil:
	case s.cfg.Records != nil:
		out, err = s.records(ctx, all, &p, after, limit)
	case all.pooled():
		out, err = s.members(ctx, all, &p, after, limit)
	default:
		err = ErrNoList
	}
	if err != nil {
		return Listing{}, fmt.Errorf("list sessions: %w", err)
	}
	return out, nil
}

// members lists the sessions that the pool knows.
func (s *Sessions) members(ctx context.Context, all ID, p *pool, after string, limit int) (out Listing, err error) {
	var ids []ID
	for _, name := range slices.Sorted(maps.Keys(p.Members)) {
		if name <= after {
			continue
		}
		if len(ids) == limit {
			out.Next = ids[limit-1].Name
			break
		}
		ids = append(ids, ID{Stream: all.Stream, Name: name})
	}
	states, err := s.states(ctx, ids)
	if err != nil {
		return out, err
	}
	for i := range states {
		out.Sessions = append(out.Sessions, Named{ids[i], s.description(ids[i], &states[i], p)})
	}
	return out, nil
}

// records lists the records of sessions. Those of the logs of groups are between those of the pool.
func (s *Sessions) records(ctx context.Context, all ID, p *pool, after string, limit int) (out Listing, err error) {
	first := all
	first.Name = after
	key := first.key()
	prefix := strings.TrimSuffix(all.key().Group, "/") + "/"
	for {
		groups, err := s.cfg.Records(ctx, record.SessionsStream, key, limit+1)
		if err != nil && !errors.Is(err, record.ErrCorrupt) { // then the others are valid
			return out, err
		}
		for i := range groups {
			key = groups[i].Key
			if !strings.HasPrefix(key.Group, prefix) {
				return out, nil
			}
			id, ok := ParseKey(key)
			if !ok || id.Stream != all.Stream || id.Group != all.Group {
				continue
			}
			if len(out.Sessions) == limit {
				out.Next = out.Sessions[limit-1].ID.Name
				return out, nil
			}
			st, err := decodeState(&groups[i])
			if err != nil {
				return out, err
			}
			out.Sessions = append(out.Sessions, Named{id, s.description(id, &st, p)})
		}
		if len(groups) <= limit {
			return out, nil
		}
	}
}

// A PoolDescription shows a pool to people and to checks.
type PoolDescription struct {
	Partitions []PartitionDescription
	// Returned is how many entries of retired sessions wait to be dealt again, and Unread how many
	// were returned after the end: these are dead letters.
	Returned, Unread uint64
	// Ended says that all entries were dealt and processed.
	Ended bool
}

// A PartitionDescription is one log of a pool.
type PartitionDescription struct {
	// Last is the number of the last entry, without the end, and Dealt that of the last one that was
	// dealt.
	Last, Dealt uint64
	// Ended says that the log has ended.
	Ended bool
	// Owner is the session that the partition belongs to, if the pool deals whole partitions.
	Owner string
}

// Waiting returns how many entries wait to be dealt.
func (p *PoolDescription) Waiting() uint64 {
	n := p.Returned
	for _, x := range p.Partitions {
		n += x.Last - min(x.Last, x.Dealt)
	}
	return n
}

// DescribePool returns the pool of a stream and the ends of its logs, which are read one after the
// other.
func (s *Sessions) DescribePool(ctx context.Context, stream string) (PoolDescription, error) {
	if _, ok := s.cfg.Pools[stream]; !ok {
		return PoolDescription{}, ErrNoPool
	}
	_, p, logs, err := s.loadPool(ctx, stream)
	if err != nil {
		return PoolDescription{}, fmt.Errorf("describe pool: %w", err)
	}
	d := deal{pool: &p, cfg: s.cfg.Pools[stream], logs: logs}
	d.renewLogs()
	out := PoolDescription{Ended: p.Ended}
	for i := range p.Parts {
		x := PartitionDescription{Dealt: p.Parts[i].Dealt, Ended: d.logs[i].Log.Ended, Owner: p.Parts[i].Owner}
		x.Last = x.Dealt + d.left(i)
		out.Partitions = append(out.Partitions, x)
	}
	for _, x := range p.Returned {
		out.Returned += x.len()
	}
	for _, x := range p.Unread {
		out.Unread += x.len()
	}
	return out, nil
}
