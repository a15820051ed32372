package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// An entry is one delivery, with its identity and its effect in one line: because both are one
// write, a crash can't keep one and lose the other.
type entry struct {
	WebhookID  string `json:"webhook_id"`
	Event      string `json:"event,omitempty"`
	Repository string `json:"repository,omitempty"`
	Ref        string `json:"ref,omitempty"`
	Commit     string `json:"commit,omitempty"`
}

// A journal keeps entries in a file and remembers their webhook-ids. In a database this is a table
// with a unique column, written in the transaction that does the work.
type journal struct {
	mu     sync.Mutex
	file   *os.File
	length int64 // of the whole lines, in bytes
	seen   map[string]bool
}

func openJournal(path string) (*journal, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	data, err := os.ReadFile(path) //nolint:gosec // the operator names it
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	// a crash may have left half a line behind them
	j := &journal{seen: map[string]bool{}, length: int64(bytes.LastIndexByte(data, '\n') + 1)}
	for line := range bytes.Lines(data[:j.length]) {
		var e entry
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("open journal: %w", err)
		}
		j.seen[e.WebhookID] = true
	}
	if j.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600); err != nil { //nolint:gosec // the operator names it
		return nil, fmt.Errorf("open journal: %w", err)
	}
	return j, nil
}

// add keeps an entry, durably, unless its webhook-id was kept before.
func (j *journal) add(e entry) (fresh bool, err error) {
	line, err := json.Marshal(e)
	if err != nil {
		return false, fmt.Errorf("encode entry: %w", err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.seen[e.WebhookID] {
		return false, nil
	}
	// If a write fails, the next one cuts off or overwrites its remains.
	if err := errors.Join(j.file.Truncate(j.length), j.write(append(line, '\n'))); err != nil {
		return false, fmt.Errorf("keep entry: %w", err)
	}
	j.length += int64(len(line)) + 1
	j.seen[e.WebhookID] = true
	return true, nil
}

func (j *journal) write(line []byte) error {
	if _, err := j.file.WriteAt(line, j.length); err != nil {
		return err
	}
	return j.file.Sync()
}
