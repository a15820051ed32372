package pebblestore

import "github.com/cockroachdb/pebble/v2"

// WriteJoined writes a batch of keys that are not the store's durably, in one write with the synced
// writes of concurrent callers, and closes it. After an error the batch may have been written.
func (s *Store) WriteJoined(batch *pebble.Batch) error { return s.synced.write(batch) }
