// Package admin is how people and scripts look into a running system and mend it: the questions, the answers as JSON, and both over a unix socket.
//
// A data folder belongs to one process at a time. While a server runs on it, the commands ask that server through the socket [SocketName] in the
// folder; otherwise they open the folder themselves. Both ways implement [Admin].
//
// # Errors
//
// [ErrNotFound] survives the socket; every other error comes through as its text.
//
// # Limits
//
// The field names of the info types are a contract. The socket is as private as the folder it is in: whoever can open it can read every message.
package admin

import (
	"context"
	"errors"
	"path/filepath"
)

// SocketName is the socket's file name within the data folder.
const SocketName = "admin.sock"

// Socket gives the path of a data folder's socket.
func Socket(dataDir string) string { return filepath.Join(dataDir, SocketName) }

// ErrNotFound says that no such stream, group, message or queue is there.
var ErrNotFound = errors.New("not found")

// DefaultLimit is how many groups or dead letters one call gives where none is asked for.
const DefaultLimit = 100

// An Admin answers questions about a system and mends it. Every method may be called concurrently, and beside normal work.
type Admin interface {
	// Stats counts what is under way. It may walk through the whole store.
	Stats(ctx context.Context) (Stats, error)
	// Groups lists groups of a stream in the store's order. An unknown stream is [ErrNotFound].
	Groups(ctx context.Context, options GroupsOptions) ([]GroupInfo, error)
	// Group gives one group, or [ErrNotFound].
	Group(ctx context.Context, stream, group string) (GroupInfo, error)
	// Message gives one message by its id, or [ErrNotFound] when nothing is known of it.
	Message(ctx context.Context, stream, id string) (MessageInfo, error)
	// Sweep finishes what crashed workers left. Repeating it is harmless.
	Sweep(ctx context.Context) (SweepInfo, error)
	// DeadLetters lists dead letters and leaves them where they are.
	DeadLetters(ctx context.Context, options DeadLettersOptions) ([]DeadLetter, error)
	// Redrive puts dead letters back under their identities.
	Redrive(ctx context.Context, options RedriveOptions) (RedriveInfo, error)
}

// GroupsOptions select groups.
type GroupsOptions struct {
	Stream string `json:"stream"`
	// After is the last group of the page before; empty starts at the first.
	After string `json:"after,omitempty"`
	// Limit defaults to DefaultLimit.
	Limit int `json:"limit,omitempty"`
}

// DeadLettersOptions select dead letters.
type DeadLettersOptions struct {
	// Queue names one dead-letter queue; empty means all.
	Queue string `json:"queue,omitempty"`
	// Reason keeps those with that reason; empty means all.
	Reason string `json:"reason,omitempty"`
	// Limit defaults to DefaultLimit.
	Limit int `json:"limit,omitempty"`
}

// RedriveOptions select the dead letters that are put back.
type RedriveOptions struct {
	// Queue names one dead-letter queue; empty means all.
	Queue string `json:"queue,omitempty"`
	// Reason keeps to those with that reason; empty means all.
	Reason string `json:"reason,omitempty"`
	// Max is how many are put back at most; 0 means all that are there now.
	Max int `json:"max,omitempty"`
}
