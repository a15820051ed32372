package oncetest

import (
	"bytes"
	"context"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// Stage implements record.Blobs.
func (b *backend) Stage(_ context.Context, staged string, body []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.staged[staged] = bytes.Clone(body)
	return nil
}

// Publish implements record.Blobs.
func (b *backend) Publish(_ context.Context, blob record.Blob) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if body, ok := b.staged[blob.Staged]; ok {
		b.blobs[blob.Key] = body
		delete(b.staged, blob.Staged)
	}
	return nil
}

// Discard implements record.Blobs.
func (b *backend) Discard(_ context.Context, staged []string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range staged {
		delete(b.staged, name)
	}
	return nil
}

// Staged implements record.Blobs. There is nothing to sweep, because no crash leaves blobs in
// memory.
func (b *backend) Staged(context.Context, time.Time) ([]string, error) { return nil, nil }

// Check implements record.Blobs. Every key is valid.
func (b *backend) Check(string) error { return nil }
