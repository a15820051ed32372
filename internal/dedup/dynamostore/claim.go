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

	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/stored"
)

// Claims keeps what is too large for an item. An item has the name of such a value in its place: a text where bytes are expected.
//
// A claim is written before the write that refers to it, under a name of the attempt's own, and is never written again. It is deleted after the write that drops it, by whoever
// made that write, or by SweepClaims: a name that is in no item now will never be in one.
type Claims interface {
	// Put writes a claim, durably.
	Put(ctx context.Context, name string, body []byte) error
	// Get reads a claim; ok is false where there is none.
	Get(ctx context.Context, name string) (body []byte, ok bool, err error)
	// Delete deletes claims; missing ones are fine.
	Delete(ctx context.Context, names []string) error
	// List gives the names of the claims that were written before a time.
	List(ctx context.Context, before time.Time) ([]string, error)
}

// claimAbove is the default of Options.ClaimAbove. A state below it and pending entries of dedup.MaxPending fit into an item together.
const claimAbove = 100 << 10

// A claim is a value on its way out of an item.
type claim struct {
	name string
	body []byte
}

// claimValue puts a large value's name in its place, and gives the claim to be written for it.
func (s *Store) claimValue(in item, attr, name string) (claim, bool) {
	b, ok := in[attr].(*types.AttributeValueMemberB)
	if s.options.Claims == nil || !ok || len(b.Value) <= s.options.ClaimAbove {
		return claim{}, false
	}
	in[attr] = str(name)
	return claim{name, b.Value}, true
}

// claimGroup moves the large values of a group out of its item: by attribute name, or by number for a pending entry.
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

// putClaims writes those of the claims that a write refers to.
func (s *Store) putClaims(ctx context.Context, claims []claim) error {
	for _, c := range claims {
		if err := s.options.Claims.Put(ctx, c.name, c.body); err != nil {
			return fmt.Errorf("write claim: %w", err)
		}
	}
	return nil
}

// dropClaims deletes what is referred to no more. What can't be deleted now a sweep deletes later.
func (s *Store) dropClaims(ctx context.Context, names []string) {
	if len(names) > 0 {
		_ = s.options.Claims.Delete(ctx, names)
	}
}

// claimsOf lists the claims that a group's item refers to.
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

// claimedEntries lists the claims among some of the entries.
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

// referred picks the claims that an update refers to: of a state that is not changed, and of entries that were there before, nothing is written.
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

// errClaimGone says that the item has been written anew since it was read.
var errClaimGone = errors.New("claim is gone")

// redeem puts the claimed values of a group's item into it.
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

// wholeGroup reads an item and what of it is kept elsewhere. Of an expired record that may be gone.
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

// hollow puts empty values in the place of claimed ones, for whoever needs the numbers of the entries only.
func hollow(it item) {
	if _, claimed := it[attrState].(*types.AttributeValueMemberS); claimed {
		delete(it, attrState)
	}
	pending := entries(it, attrPending)
	for n, v := range pending {
		if _, claimed := v.(*types.AttributeValueMemberS); claimed {
			pending[n] = encoded(func(e *stored.Encoder) { e.Object() })
		}
	}
}

// SweepClaims deletes the claims from before a time that no group refers to: of commits that lost or crashed, and of groups that have expired. The time is to be longer ago than any
// commit may take; an hour is ample. It begins with any of them: who has no time for all is with others the next time.
func (s *Store) SweepClaims(ctx context.Context, before time.Time) (int, error) {
	if s.options.Claims == nil {
		return 0, nil
	}
	names, err := s.options.Claims.List(ctx, before)
	if err != nil {
		return 0, fmt.Errorf("list claims: %w", err)
	}
	if len(names) > 0 {
		begin := rand.N(len(names)) //nolint:gosec // nobody gains by guessing it
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

// strays gives the claims to which no item refers.
func (s *Store) strays(ctx context.Context, names []string) ([]string, error) {
	var keys []item
	asked := map[string]bool{}
	owner := func(name string) string {
		encoded, _, _ := strings.Cut(name, "/")
		pk, _ := base64.RawURLEncoding.DecodeString(encoded) // of a name that is none of ours: the key of no group
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
		if r.checkFormat(); r.err != nil { // who knows what it refers to
			unread[partitionOf(it)] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return known[name] || !asked[owner(name)] || unread[owner(name)] }), nil
}
