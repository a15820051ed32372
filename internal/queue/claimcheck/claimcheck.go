// Package claimcheck keeps the bodies of messages that are too large for a queue of SQS in a store
// of objects. The message has the name of its body instead (a claim check), in the attribute
// [Attribute].
//
// # Life of a body
//
// It is written before the message is sent, under a name of its own, and never changed. It is not
// deleted with the message: a copy of the message, or its dead letter, may still name it. A rule of
// the bucket removes it, later than any queue forgets the message. The same rule removes a body
// whose message was not sent. A message that is sent again gets another body.
//
// # Trust
//
// Only the names of trusted senders are followed: any other sender could name the body of somebody
// else's message. For all others the attribute is one that no contract knows, so that the message
// is refused.
//
// # Errors
//
// If a body can't be read, or is not the one that was written, [Redeem] sets Unread of its
// delivery, and never passes on an empty body. The message stays in its queue, is tried again, and
// at last is moved to the dead-letter queue by SQS, with the name.
package claimcheck

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"

	"github.com/effectively-once/once/internal/queue"
)

// Attribute has the name of the body of a message. It begins as all attributes do that are reserved
// for the contract of package wire, which does not know it.
const Attribute = "once-body"

// Bodies keeps bodies by their names.
type Bodies interface {
	// Put writes a body, durably.
	Put(ctx context.Context, name string, body []byte) error
	// Get reads a body; ok is false if there is none.
	Get(ctx context.Context, name string) (body []byte, ok bool, err error)
}

var (
	errNoBodies = errors.New("the body is kept in a bucket, and this program knows none")
	errMissing  = errors.New("the bucket has no such object: it was deleted, or a rule of the bucket removed it")
	errOther    = errors.New("the object in the bucket is not the body that was sent")
)

// Put writes the body of a message and returns the message with the name in its place.
func Put(ctx context.Context, bodies Bodies, m queue.Message) (queue.Message, error) {
	name := sum(m.Body) + "-" + rand.Text()
	if err := bodies.Put(ctx, name, []byte(m.Body)); err != nil {
		return m, fmt.Errorf("keep body: %w", err)
	}
	attributes := make(map[string]string, len(m.Attributes)+1)
	maps.Copy(attributes, m.Attributes)
	attributes[Attribute] = name
	m.Body, m.Attributes = fmt.Sprintf("The body has %d bytes and is kept in the bucket, under %s.", len(m.Body), name), attributes
	return m, nil
}

// Redeem reads the bodies of the deliveries from trusted senders that have names in their place. If
// bodies is nil, they can't be read.
func Redeem(ctx context.Context, bodies Bodies, trusts func(*queue.Delivery) bool, deliveries []queue.Delivery) {
	var all sync.WaitGroup
	for i := range deliveries {
		d := &deliveries[i]
		if name, named := d.Attributes[Attribute]; named && trusts(d) {
			all.Go(func() { redeem(ctx, bodies, name, d) })
		}
	}
	all.Wait()
}

func redeem(ctx context.Context, bodies Bodies, name string, d *queue.Delivery) {
	body, err := read(ctx, bodies, name)
	if err != nil {
		d.Unread = fmt.Errorf("read body %.100s: %w", name, err)
		body = d.Body
	}
	attributes := make(map[string]string, len(d.Attributes))
	for key, value := range d.Attributes {
		if key != Attribute {
			attributes[key] = value
		}
	}
	d.Body, d.Attributes = body, attributes
}

func read(ctx context.Context, bodies Bodies, name string) (string, error) {
	if bodies == nil {
		return "", errNoBodies
	}
	hash, _, ok := strings.Cut(name, "-")
	if !ok || strings.Contains(name, "/") {
		return "", errMissing
	}
	data, ok, err := bodies.Get(ctx, name)
	body := string(data)
	switch {
	case err != nil:
		return "", err
	case !ok:
		return "", errMissing
	case sum(body) != hash:
		return "", errOther
	}
	return body, nil
}

func sum(body string) string {
	h := sha256.Sum256([]byte(body))
	return hex.EncodeToString(h[:])
}
