package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/record"
)

// HashOptions name a message by its hash, as lines of the log do.
type HashOptions struct {
	// Stream is the message's stream; empty searches all.
	Stream string `json:"stream,omitempty"`
	// Hash is the hash of a line, or the first [MinHash] or more hexadecimal digits of the key of
	// its token.
	Hash string `json:"hash"`
}

// MinHash is the least number of digits of a hash to search for.
const MinHash = 6

// Validate returns an error if the hash is none.
func (o HashOptions) Validate() error {
	if len(o.Hash) < MinHash || len(o.Hash) > 64 || strings.Trim(o.Hash, "0123456789abcdef") != "" {
		return fmt.Errorf("%q must be the hash of a line of the log: %d to 64 hexadecimal digits in lower case", o.Hash, MinHash)
	}
	return nil
}

// Matches reports whether a message has the hash.
func (o HashOptions) Matches(m *record.Message) bool {
	return (o.Stream == "" || o.Stream == m.Stream) && strings.HasPrefix(record.NewTokenKey(m.Principal, m.Stream, m.Identity()).String(), o.Hash)
}

// NotFound returns the error for a hash that was not found.
func (o HashOptions) NotFound() error {
	return fmt.Errorf("message with the hash %s: %w", o.Hash, ErrNotFound)
}

// Found is a message that was found by its hash. If only its token was found, the id is not known,
// because a token contains the hash of the id alone.
type Found struct {
	Message record.Message // its principal, stream and id
	Token   record.Token
}

// FoundToken returns what the token of a message says.
func FoundToken(t *record.Token) Found {
	found := Found{Message: record.Message{Stream: t.Stream, Group: t.Group}, Token: *t}
	if t.Request != nil {
		found.Message.ID, found.Message.Principal = t.Request.ID, t.Request.Principal
	}
	return found
}

// maxWalked is how many records a search reads of each kind.
const maxWalked = 1_000_000

var errEnough = errors.New("enough")

// SearchGroups looks for a message by its hash among the pending and held messages of groups. It
// reads at most a million groups. The message has its group.
func SearchGroups(ctx context.Context, l record.Lister, o HashOptions, passed func(error)) (record.Message, error) {
	var found record.Message
	w := walk{o: o, kind: "groups"}
	err := w.ended(record.EachGroup(ctx, l, o.Stream, passed, func(g *record.Group) error {
		m, ok := o.InGroup(g)
		if ok {
			found = m
		}
		return w.next(ok)
	}))
	return found, err
}

// Search looks for a message by its hash among the pending and held messages of groups and among
// the tokens. It reads the whole store, but at most a million groups and a million tokens. A
// numbered message that is done left neither, so it is not found.
func Search(ctx context.Context, l record.Lister, o HashOptions, passed func(error)) (Found, error) {
	m, notInGroups := SearchGroups(ctx, l, o, passed)
	if !errors.Is(notInGroups, ErrNotFound) {
		return Found{Message: m}, notInGroups
	}
	var found Found
	w := walk{o: o, kind: "tokens"}
	err := w.ended(record.EachToken(ctx, l, passed, func(t *record.Token) error {
		ok := (o.Stream == "" || o.Stream == t.Stream) && strings.HasPrefix(t.Key.String(), o.Hash)
		if ok {
			found = FoundToken(t)
		}
		return w.next(ok)
	}))
	if errors.Is(err, ErrNotFound) && !w.full() {
		err = notInGroups // it says whether all groups were read
	}
	return found, err
}

// A walk counts the records that a search reads.
type walk struct {
	o    HashOptions
	kind string
	read int
}

// next returns the error that ends the walk if the record is the one looked for, or if it is one
// too many.
func (w *walk) next(found bool) error {
	if found {
		return errEnough
	}
	if w.read++; w.full() {
		return fmt.Errorf("%w among the first %d %s", w.o.NotFound(), maxWalked, w.kind)
	}
	return nil
}

func (w *walk) full() bool { return w.read > maxWalked }

// ended returns the search's error from that of its walk.
func (w *walk) ended(err error) error {
	switch {
	case errors.Is(err, errEnough):
		return nil
	case err == nil:
		return w.o.NotFound()
	}
	return err
}

// InGroup looks for a message that is pending or held.
func (o HashOptions) InGroup(g *record.Group) (record.Message, bool) {
	for _, p := range g.Pending {
		m := record.Message{Principal: p.Principal, Stream: g.Key.Stream, Group: g.Key.Group, ID: p.Identity}
		if o.Matches(&m) {
			return m, true
		}
	}
	for key, src := range g.Sources {
		info := sourceInfo(key, src)
		for _, r := range src.Held {
			for n := r.First; n <= r.Last; n++ {
				m := record.Message{Principal: info.Principal, Stream: g.Key.Stream, Group: g.Key.Group, Source: info.Source, Epoch: src.Epoch, Sequence: n}
				if o.Matches(&m) {
					m.ID = m.Number()
					return m, true
				}
			}
		}
	}
	return record.Message{}, false
}

// Info describes a message of which only the token is known.
func (f *Found) Info() MessageInfo {
	t := &f.Token
	state := admission.State{Group: t.Group, Reply: t.Reply, Token: *t}
	switch {
	case t.Deleted():
		state.Status = admission.StatusDeleted
	case t.State == record.Done:
		state.Status = admission.StatusDone
	default:
		state.OfToken()
	}
	info := describe(record.Message{Stream: t.Stream}, state.Told())
	info.Hash = t.Key.Short()
	return info
}
