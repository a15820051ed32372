package follow

import (
	"context"
	"errors"
	"fmt"

	"github.com/effectively-once/once/internal/dedup/log"
	"github.com/effectively-once/once/internal/record"
)

// GroupStore is the part of a store that listing groups needs.
type GroupStore interface {
	log.Store
	Groups(ctx context.Context, stream string, after record.GroupKey, limit int) ([]record.Group, error)
}

// Groups lists the groups of a stream, and those whose logs change. It is for one process that has
// the store for itself.
type Groups struct {
	*Hub
	store GroupStore
}

// NewGroups returns the groups of a store whose appends a hub is told of.
func NewGroups(store GroupStore, hub *Hub) *Groups { return &Groups{Hub: hub, store: store} }

// A GroupEnd is a group and the end of its log.
type GroupEnd struct {
	Group string
	Last  log.Offset
	Ended bool
}

// A GroupPage is a part of a list of groups.
type GroupPage struct {
	Groups []GroupEnd
	// Next is the name after which the list goes on, empty if it is complete.
	Next string
	// Mark is a position before the list was read: the changes after it are not all in the list.
	Mark Mark
}

// List returns the groups of a stream after a name, about limit at most, without those that have no
// log and those whose records are corrupt.
func (g *Groups) List(ctx context.Context, stream, after string, limit int) (GroupPage, error) {
	page := GroupPage{Mark: g.Mark()}
	var from record.GroupKey
	if after != "" {
		from = record.GroupKey{Stream: stream, Group: after}
	}
	groups, err := g.store.Groups(ctx, stream, from, limit)
	if err != nil && !errors.Is(err, record.ErrCorrupt) { // then the other groups are valid
		return GroupPage{}, fmt.Errorf("list groups: %w", err)
	}
	if len(groups) == limit {
		page.Next = groups[limit-1].Key.Group
	}
	page.Groups = ends(groups)
	return page, nil
}

// Ends returns the ends of the logs of groups, without groups whose records are corrupt.
func (g *Groups) Ends(ctx context.Context, stream string, names []string) (out []GroupEnd, err error) {
	for _, name := range names {
		groups, _, err := g.store.Load(ctx, []record.GroupKey{{Stream: stream, Group: name}}, nil)
		if err != nil && !errors.Is(err, record.ErrCorrupt) {
			return nil, fmt.Errorf("load group: %w", err)
		}
		out = append(out, ends(groups)...)
	}
	return out, nil
}

func ends(groups []record.Group) []GroupEnd {
	out := make([]GroupEnd, 0, len(groups))
	for i := range groups {
		if g := &groups[i]; g.Log.Last > 0 {
			out = append(out, GroupEnd{Group: g.Key.Group, Last: log.Offset{Incarnation: g.Incarnation, Number: g.Log.Last}, Ended: g.Log.Ended})
		}
	}
	return out
}
