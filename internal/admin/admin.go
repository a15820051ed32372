// Package admin defines how people and scripts inspect and repair a running system: the operations,
// their results as JSON, and a unix socket for both.
//
// A data folder belongs to one process at a time. While a server runs on it, the commands call that
// server through the socket [SocketName] in the folder; otherwise they open the folder themselves.
// Both implement [Admin].
//
// # Errors
//
// [ErrNotFound] is preserved through the socket; of every other error only the text is.
//
// # Limits
//
// The field names of the info types are a contract. The socket is as private as its folder: every
// process that can open it can read every message.
package admin

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/effectively-once/once/internal/schedule"
)

// SocketName is the socket's file name within the data folder.
const SocketName = "admin.sock"

// Socket returns the path of a data folder's socket.
func Socket(dataDir string) string { return filepath.Join(dataDir, SocketName) }

// ErrNotFound says that there is no such stream, group, message or queue.
var ErrNotFound = errors.New("not found")

// DefaultLimit is how many groups or dead letters one call returns by default.
const DefaultLimit = 100

// An Admin inspects and repairs a system. Every method may be called concurrently, also while the
// system processes messages.
type Admin interface {
	// Stats counts messages and tokens. It may read the whole store.
	Stats(ctx context.Context) (Stats, error)
	// Groups lists groups of a stream in the store's order. For an unknown stream it returns
	// [ErrNotFound].
	Groups(ctx context.Context, options GroupsOptions) ([]GroupInfo, error)
	// Group returns one group, or [ErrNotFound].
	Group(ctx context.Context, stream, group string) (GroupInfo, error)
	// Message returns one message by its id, or [ErrNotFound] if it is unknown.
	Message(ctx context.Context, stream, id string) (MessageInfo, error)
	// ByHash returns one message by its hash in the log, or [ErrNotFound]. It may read the whole
	// store; see [Search].
	ByHash(ctx context.Context, options HashOptions) (MessageInfo, error)
	// Sweep finishes the work that crashed workers left. Repeating it is harmless.
	Sweep(ctx context.Context) (SweepInfo, error)
	// DeadLetters lists dead letters without changing them.
	DeadLetters(ctx context.Context, options DeadLettersOptions) ([]DeadLetter, error)
	// Redrive puts dead letters back under their identities.
	Redrive(ctx context.Context, options RedriveOptions) (RedriveInfo, error)
	// Drop deletes dead letters forever. It needs an ID or a Reason: see [DropOptions].
	Drop(ctx context.Context, options DropOptions) (DropInfo, error)
	// Skip makes a pending effect a dead letter, so that the later effects of its group are sent.
	// If the effect is not pending, it returns [ErrNotFound]. After another error the effect may be
	// a dead letter already; repeating Skip is safe.
	Skip(ctx context.Context, options SkipOptions) (SkipInfo, error)
	// Schedules lists the configured schedules by name, with their next and last times.
	Schedules(ctx context.Context) ([]schedule.Info, error)
}

// A Backuper is an Admin of a data folder, which can be copied.
type Backuper interface {
	// Backup copies the data folder and its output files into a folder that does not exist, also
	// while the system processes messages. The path must be absolute.
	Backup(ctx context.Context, dir string) (BackupInfo, error)
}

// A BackupInfo describes a backup.
type BackupInfo struct {
	Dir string `json:"dir"`
	// At is the moment of the copy. It has nothing that came later.
	At time.Time `json:"at"`
	// Files counts the output files in it, Objects the published objects.
	Files   int `json:"files"`
	Objects int `json:"objects"`
	// Unknown counts the output files of destinations that are not configured. They are not in it.
	Unknown int `json:"unknown_files,omitempty"`
	// Missing counts output files that were moved away, and not begun again before the backup.
	Missing int `json:"missing_files,omitempty"`
}

// GroupsOptions select groups.
type GroupsOptions struct {
	Stream string `json:"stream"`
	// After is the last group of the previous page; empty starts at the first.
	After string `json:"after,omitempty"`
	// Limit defaults to DefaultLimit.
	Limit int `json:"limit,omitempty"`
}

// DeadLettersOptions select dead letters.
type DeadLettersOptions struct {
	// Queue names one dead-letter queue; empty means all.
	Queue string `json:"queue,omitempty"`
	// Stream keeps those of that stream; empty means all.
	Stream string `json:"stream,omitempty"`
	// Reason keeps those with that reason; empty means all.
	Reason string `json:"reason,omitempty"`
	// ID keeps those with that id: of the message, of the effect, or of the queue's message.
	ID string `json:"id,omitempty"`
	// Limit defaults to DefaultLimit.
	Limit int `json:"limit,omitempty"`
	// Content is how many bytes of each body are returned, with the headers. 0 returns neither;
	// a negative number returns the whole body.
	Content int `json:"content,omitempty"`
}

// RedriveOptions select the dead letters that are put back.
type RedriveOptions struct {
	// Queue names one dead-letter queue; empty means all.
	Queue string `json:"queue,omitempty"`
	// Stream selects letters of that stream; empty means all.
	Stream string `json:"stream,omitempty"`
	// Reason selects letters with that reason; empty means all.
	Reason string `json:"reason,omitempty"`
	// ID selects letters with that id, as in [DeadLettersOptions].
	ID string `json:"id,omitempty"`
	// Max is the largest number that is put back; 0 means all that exist now.
	Max int `json:"max,omitempty"`
	// Answered puts back letters whose callers were told that their messages are refused, too. The
	// new outcome of such a message takes the place of that answer.
	Answered bool `json:"answered,omitempty"`
	// By names the operator in the log, as in [DropOptions].
	By string `json:"by,omitempty"`
}

// SkipOptions name the effect to skip.
type SkipOptions struct {
	Stream string `json:"stream"`
	Group  string `json:"group"`
	Number uint64 `json:"number"`
}

// NotPending returns the error for an effect that is not pending: [ErrNotFound] with its name.
func (o SkipOptions) NotPending() error {
	return fmt.Errorf("pending effect %d of %s/%s: %w", o.Number, o.Stream, o.Group, ErrNotFound)
}

// DropOptions select the dead letters that are deleted. ID or Reason must be set, so that no
// mistake deletes all of them.
type DropOptions struct {
	// Queue names one dead-letter queue; empty means all.
	Queue string `json:"queue,omitempty"`
	// Stream selects letters of that stream; empty means any. It is not enough by itself.
	Stream string `json:"stream,omitempty"`
	// Reason selects letters with that reason; empty means any.
	Reason string `json:"reason,omitempty"`
	// ID selects letters with that id, as in [DeadLettersOptions]; empty means any.
	ID string `json:"id,omitempty"`
	// Until spares dead letters that were sent later. Zero means now.
	Until time.Time `json:"until,omitzero"`
	// MessageIDs selects among these letters those with one of these ids, which the queues gave
	// them; empty means any.
	MessageIDs []string `json:"message_ids,omitempty"`
	// By names the operator in the log. On a stack it defaults to the
	// caller's principal.
	By string `json:"by,omitempty"`
}

// ErrDropAll is the error of a Drop that selects nothing.
var ErrDropAll = errors.New("name the dead letters to drop by their id or their reason")

// Validate returns [ErrDropAll] if neither an ID nor a Reason is set.
func (o DropOptions) Validate() error {
	if o.ID == "" && o.Reason == "" {
		return ErrDropAll
	}
	return nil
}
