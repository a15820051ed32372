package s3blob

import (
	"context"
	"fmt"
	"time"

	"github.com/effectively-once/once/internal/blob"
)

// ClaimPrefix begins the keys of claims.
const ClaimPrefix = blob.Claims + "/"

// Claims keeps in a bucket what is too large for a record, for a store that keeps the names (claim
// checks). A name is used once. Claims do not expire: no lifecycle rule may delete them. The store,
// or its sweep, deletes those that no record refers to. All errors leave the call applied or not;
// every call may be repeated.
type Claims struct {
	bucket bucket
	prefix string
}

// NewClaims returns the claims of a bucket. It does no call.
func NewClaims(client Client, name string) *Claims {
	return &Claims{bucket{client, name}, ClaimPrefix}
}

// BodyPrefix begins the keys of bodies.
const BodyPrefix = blob.Bodies + "/"

// NewBodies returns the place of bodies that are too large for a queue, see package claimcheck. It
// does no call. Unlike claims they expire: a lifecycle rule deletes them when no queue can name
// them any more.
func NewBodies(client Client, name string) *Claims {
	return &Claims{bucket{client, name}, BodyPrefix}
}

// Put writes a claim.
func (c *Claims) Put(ctx context.Context, name string, body []byte) error {
	if err := c.bucket.put(ctx, c.prefix+name, body); err != nil {
		return fmt.Errorf("put claim: %w", err)
	}
	return nil
}

// Get returns a claim; ok is false if it does not exist.
func (c *Claims) Get(ctx context.Context, name string) (body []byte, ok bool, err error) {
	body, err = c.bucket.get(ctx, c.prefix+name)
	if missing(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("get claim: %w", err)
	}
	return body, true, nil
}

// Delete deletes claims; missing ones are no error.
func (c *Claims) Delete(ctx context.Context, names []string) error {
	keys := make([]string, len(names))
	for i, name := range names {
		keys[i] = c.prefix + name
	}
	if err := c.bucket.delete(ctx, keys); err != nil {
		return fmt.Errorf("delete claims: %w", err)
	}
	return nil
}

// List returns the names of the claims that were written before a time, by S3's clock.
func (c *Claims) List(ctx context.Context, before time.Time) ([]string, error) {
	names, err := c.bucket.list(ctx, c.prefix, before)
	if err != nil {
		return nil, fmt.Errorf("list claims: %w", err)
	}
	return names, nil
}
