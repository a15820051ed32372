package dynamostore

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/effectively-once/once/internal/dedup/encoding"
	"github.com/effectively-once/once/internal/record"
)

// Claims stores values that are too large for an item. The item has the name of the value in its
// place, as a string where bytes are expected.
//
// A claim is written before the write that refers to it, under a name that is unique to the
// attempt, and is never overwritten. The caller of the write that removes the reference deletes it
// afterwards, or SweepClaims does. A name that is in no item now will never be in one.
type Claims interface {
	// Put writes a claim, durably.
	Put(ctx context.Context, name string, body []byte) error
	// Get reads a claim; ok is false if there is none.
	Get(ctx context.Context, name string) (body []byte, ok bool, err error)
	// Delete deletes claims; missing ones are ignored.
	Delete(ctx context.Context, names []string) error
	// List returns the names of the claims that were written before a time.
	List(ctx context.Context, before time.Time) ([]string, error)
}

// claimAbove is the default of Options.ClaimAbove. A state below this size and pending entries of
// dedup.MaxPending fit into an item together.
const claimAbove = 100 << 10

// A claim is a value that is too large for its item, and its name.
type claim struct {
	name string
	body []byte
}

// claimValue replaces a large value by its name, and returns the claim to write.
func (s *Store) claimValue(in item, attr, name string) (claim, bool) {
	b, ok := in[attr].(*types.AttributeValueMemberB)
	if s.options.Claims == nil || !ok || len(b.Value) <= s.options.ClaimAbove {
		return claim{}, false
	}
	in[attr] = str(name)
	return claim{name, b.Value}, true
}

// claimGroup replaces the large values of a group's item, and returns the claims by attribute name,
// or by number for a pending entry.
func (s *Store) claimGroup(it item, key record.GroupKey, attempt string) map[string]claim {
	sum := sha256.Sum256([]byte(attempt))
	prefix := base64.RawURLEncoding.EncodeToString([]byte(partition(key))) + "/" + hex.EncodeToString(sum[:16]) + "/"
	out := map[string]claim{}
	if c, ok := s.claimValue(it, attrState, prefix+attrState); ok {
		out[attrState] = c
	}
	pending := entries(it, attrPending)
	for n := range pending {
		if c, ok := s.claimValue(pending, n, prefix+n); ok {
			out[n] = c
		}
	}
	return out
}

// putClaims writes the claims to which a write will refer.
func (s *Store) putClaims(ctx context.Context, claims []claim) error {
	for _, c := range claims {
		if err := s.options.Claims.Put(ctx, c.name, c.body); err != nil {
			return fmt.Errorf("write claim: %w", err)
		}
	}
	return nil
}

// dropClaims deletes claims without a reference. If that fails, a sweep deletes them later.
func (s *Store) dropClaims(ctx context.Context, names []string) {
	if len(names) > 0 {
		_ = s.options.Claims.Delete(ctx, names)
	}
}

// claimsOf returns the names of the claims to which a group's item refers.
func claimsOf(it item) []string {
	var names []string
	note := func(v types.AttributeValue) {
		if name, ok := v.(*types.AttributeValueMemberS); ok {
			names = append(names, name.Value)
		}
	}
	note(it[attrState])
	if p, ok := it[attrPending].(*types.AttributeValueMemberM); ok {
		for _, v := range p.Value {
			note(v)
		}
	}
	return names
}

// claimedEntries returns the names of the claims of some entries.
func claimedEntries(it item, numbers []string) []string {
	p, ok := it[attrPending].(*types.AttributeValueMemberM)
	if !ok {
		return nil
	}
	gone := item{}
	for _, n := range numbers {
		gone[n] = p.Value[n]
	}
	return claimsOf(item{attrPending: &types.AttributeValueMemberM{Value: gone}})
}

// referred returns the claims to which an update refers. It leaves out an unchanged state, and
// entries that are stored already.
func referred(values item, claims map[string]claim) []claim {
	used := map[string]bool{}
	for _, v := range values {
		switch v := v.(type) {
		case *types.AttributeValueMemberS:
			used[v.Value] = true
		case *types.AttributeValueMemberM:
			for _, name := range claimsOf(item{attrPending: v}) {
				used[name] = true
			}
		}
	}
	var out []claim
	for _, c := range claims {
		if used[c.name] {
			out = append(out, c)
		}
	}
	return out
}

// mayClaim reports whether a loaded record may refer to claims.
func (s *Store) mayClaim(g *record.Group) bool {
	return s.options.Claims != nil && (len(g.State) > s.options.ClaimAbove || g.PendingBytes() > s.options.ClaimAbove)
}

// errClaimGone says that the item has been rewritten since it was read.
var errClaimGone = errors.New("claim is gone")

// redeem replaces the names in a group's item by the claimed values.
func (s *Store) redeem(ctx context.Context, it item) error {
	if len(claimsOf(it)) == 0 {
		return nil
	}
	if s.options.Claims == nil {
		return fmt.Errorf("%w: it refers to claims, and this program has none", record.ErrCorrupt)
	}
	if err := s.redeemValue(ctx, it, attrState); err != nil {
		return err
	}
	pending := entries(it, attrPending)
	for n := range pending {
		if err := s.redeemValue(ctx, pending, n); err != nil {
			return err
		}
	}
	return nil
}

// wholeGroup decodes an item and its claims. It does not read the claims of an expired record,
// which may be gone.
func (s *Store) wholeGroup(ctx context.Context, key record.GroupKey, it item, now int64) (record.Group, error) {
	if !expired(&reader{item: it}, now) {
		if err := s.redeem(ctx, it); err != nil {
			return record.Group{Key: key}, err
		}
	}
	return decodeGroup(key, it, now)
}

func (s *Store) redeemValue(ctx context.Context, in item, attr string) error {
	name, ok := in[attr].(*types.AttributeValueMemberS)
	if !ok {
		return nil
	}
	body, found, err := s.options.Claims.Get(ctx, name.Value)
	if err == nil && !found {
		err = errClaimGone
	}
	if err != nil {
		return fmt.Errorf("read claim: %w", err)
	}
	in[attr] = binary(body)
	return nil
}

// hollow replaces claimed values by empty ones, for a caller that needs only the numbers of the
// entries.
func hollow(it item) {
	if _, claimed := it[attrState].(*types.AttributeValueMemberS); claimed {
		delete(it, attrState)
	}
	pending := entries(it, attrPending)
	for n, v := range pending {
		if _, claimed := v.(*types.AttributeValueMemberS); claimed {
			pending[n] = encoded(func(e *encoding.Encoder) { e.Object() })
		}
	}
}

// SweepClaims deletes the claims from before a time to which no group refers: those of commits that
// lost or crashed, and of expired groups. The time must be longer ago than any commit may take; an
// hour is ample. It starts at a random claim, so that sweeps that are cut short cover all claims in
// the end.
func (s *Store) SweepClaims(ctx context.Context, before time.Time) (int, error) {
	if s.options.Claims == nil {
		return 0, nil
	}
	names, err := s.options.Claims.List(ctx, before)
	if err != nil {
		return 0, fmt.Errorf("list claims: %w", err)
	}
	if len(names) > 0 {
		begin := rand.N(len(names)) //nolint:gosec // not a secret
		names = slices.Concat(names[begin:], names[:begin])
	}
	n := 0
	for chunk := range slices.Chunk(names, batchGet) {
		strays, err := s.strays(ctx, chunk)
		if err == nil && len(strays) > 0 {
			err = s.options.Claims.Delete(ctx, strays)
		}
		if err != nil {
			return n, fmt.Errorf("sweep claims: %w", err)
		}
		n += len(strays)
	}
	return n, nil
}

// strays returns the claims to which no item refers.
func (s *Store) strays(ctx context.Context, names []string) ([]string, error) {
	var keys []item
	asked := map[string]bool{}
	owner := func(name string) string {
		encoded, _, _ := strings.Cut(name, "/")
		// If the name is not ours, this is the key of no group.
		pk, _ := base64.RawURLEncoding.DecodeString(encoded)
		return string(pk)
	}
	for _, name := range names {
		key, ok := parsePartition(owner(name))
		if ok && !asked[owner(name)] {
			asked[owner(name)] = true
			keys = append(keys, groupItemKey(key))
		}
	}
	items, err := s.read(ctx, s.tables.Groups, keys)
	if err != nil {
		return nil, err
	}
	known, unread := map[string]bool{}, map[string]bool{}
	for _, it := range items {
		for _, name := range claimsOf(it) {
			known[name] = true
		}
		r := &reader{item: it}
		if r.checkFormat(); r.err != nil { // its references are unknown
			unread[partitionOf(it)] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return known[name] || !asked[owner(name)] || unread[owner(name)] }), nil
}
