package client

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/effectively-once/once/client/internal/files"
)

const (
	spoolName    = "messages" // the file of a sender
	spoolLock    = "lock"
	spoolVersion = 1
	// spoolSlack is how many bytes of acknowledged messages a file has at most before it is
	// replaced by a new file without them. It is then also larger than the rest.
	spoolSlack = 1 << 20
)

// A fileSpool keeps messages in a file, to which it appends. Each line has a checksum. Lines at the
// end that a crash has left unfinished are removed: see [lostPower]; other damage is an error. When
// most of the file is acknowledged, a new file without that part replaces it.
type fileSpool struct {
	folder string
	lock   *os.File
	begin  spoolBegin

	mu      sync.Mutex
	idle    *sync.Cond // of syncing
	file    *os.File
	size    int64
	starts  []int64 // where the messages from begin.First on start in the file
	done    uint64  // the last acknowledged number that was read
	written int64   // bytes ever written, and of them synced ones
	synced  int64
	durable uint64 // the last message that is synced
	syncing bool
	err     error // why nothing can be written any more
}

// openSpool opens or makes the file in a folder, and returns the messages that are in it.
func openSpool(folder string, own spoolBegin) (s *fileSpool, messages []Message, err error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, nil, fmt.Errorf("make folder: %w", err)
	}
	s = &fileSpool{folder: folder}
	s.idle = sync.NewCond(&s.mu)
	if s.lock, err = os.OpenFile(filepath.Join(folder, spoolLock), os.O_RDWR|os.O_CREATE, 0o600); err != nil { //nolint:gosec // the folder of the caller
		return nil, nil, fmt.Errorf("open lock: %w", err)
	}
	if err = files.Lock(s.lock); err == nil {
		messages, err = s.load(own)
	} else if errors.Is(err, files.ErrLocked) {
		err = errors.New("another sender has the folder open")
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("open folder %s: %w", folder, err), s.lock.Close())
	}
	return s, messages, nil
}

func (s *fileSpool) path() string { return filepath.Join(s.folder, spoolName) }

// load reads the file, cuts off a line that a crash has left unfinished, and opens it for
// appending.
func (s *fileSpool) load(own spoolBegin) ([]Message, error) {
	content, err := os.ReadFile(s.path())
	if errors.Is(err, os.ErrNotExist) {
		s.begin = own
		return nil, s.replace(nil)
	}
	if err != nil {
		return nil, fmt.Errorf("read messages: %w", err)
	}
	messages, end, err := s.read(content, own)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", s.path(), err)
	}
	if s.file, err = os.OpenFile(s.path(), os.O_RDWR, 0o600); err != nil {
		return nil, fmt.Errorf("open messages: %w", err)
	}
	if s.size = end; end < int64(len(content)) {
		err = s.file.Truncate(end)
	}
	// Lines of a process that was killed may not be durable yet; they must be before they are sent.
	if err = errors.Join(err, s.file.Sync()); err != nil {
		return nil, errors.Join(fmt.Errorf("cut messages off: %w", err), s.file.Close())
	}
	s.durable = s.last()
	return messages, nil
}

// read reads the lines of a file. end is where the whole lines end.
func (s *fileSpool) read(content []byte, own spoolBegin) (messages []Message, end int64, err error) {
	for n := 1; ; n++ {
		line, rest, whole := bytes.Cut(content[end:], []byte{'\n'})
		if !whole {
			if !torn(line) || n == 1 { // the first line is there before the file has its name
				return nil, 0, fmt.Errorf("line %d: %w", n, errDamaged)
			}
			return s.unacknowledged(messages, end)
		}
		l, err := decodeLine(line)
		if err != nil && n > 1 && lostPower(content, end, s.begin.First+uint64(len(messages))) {
			return s.unacknowledged(messages, end)
		}
		if err == nil {
			messages, err = s.apply(l, n == 1, end, messages, own)
		}
		if err != nil {
			return nil, 0, fmt.Errorf("line %d: %w", n, err)
		}
		end = int64(len(content) - len(rest))
	}
}

// apply adds one line to the messages that were read.
func (s *fileSpool) apply(l spoolLine, first bool, at int64, messages []Message, own spoolBegin) ([]Message, error) {
	next := s.begin.First + uint64(len(messages))
	switch {
	case first != (l.Begin != nil):
		return nil, errDamaged
	case first:
		s.begin = *l.Begin
		if s.begin.Version != spoolVersion {
			return nil, fmt.Errorf("its version is %d, and this program knows %d", s.begin.Version, spoolVersion)
		}
		own.Epoch, own.First = s.begin.Epoch, s.begin.First
		if s.begin != own {
			return nil, fmt.Errorf("it belongs to the source %q in the group %q of the stream %q", s.begin.Source, s.begin.Group, s.begin.Stream)
		}
	case l.Message != nil:
		if l.Message.Number != next {
			return nil, fmt.Errorf("%w: message %d is where %d should be", errDamaged, l.Message.Number, next)
		}
		messages, s.starts = append(messages, l.Message.message()), append(s.starts, at)
	case l.Epoch != 0:
		s.begin.Epoch = l.Epoch
	case l.Done >= next:
		return nil, fmt.Errorf("%w: message %d is acknowledged before it is there", errDamaged, l.Done)
	default:
		s.done = max(s.done, l.Done)
	}
	return messages, nil
}

// unacknowledged removes the acknowledged messages from those that were read.
func (s *fileSpool) unacknowledged(messages []Message, end int64) ([]Message, int64, error) {
	if s.done >= s.begin.First {
		n := int(s.done - s.begin.First + 1) //nolint:gosec // at most the number of messages
		messages, s.starts, s.begin.First = messages[n:], s.starts[n:], s.done+1
	}
	return messages, end, nil
}
