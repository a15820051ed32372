package client

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/effectively-once/once/client/internal/files"
)

// Append adds the message of the next number. It returns a function that waits until the message is
// durable; callers who wait at the same time share a sync.
func (s *fileSpool) Append(m Message) (sync func() error, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, line := s.size, toSpool(&m)
	line.Durable = s.durable
	if err := s.write(spoolLine{Message: line}); err != nil {
		return nil, err
	}
	s.starts = append(s.starts, at)
	target := s.written
	return func() error { return s.sync(target) }, nil
}

// write appends a line. If that fails, nothing of it stays in the file, or the spool takes no more.
func (s *fileSpool) write(l spoolLine) error {
	if s.err != nil {
		return s.err
	}
	line, err := l.encode()
	if err != nil {
		return err
	}
	if _, err := s.file.WriteAt(line, s.size); err != nil {
		err = fmt.Errorf("write message: %w", err)
		if cut := s.file.Truncate(s.size); cut != nil {
			s.err = errors.Join(err, cut)
		}
		return err
	}
	s.size, s.written = s.size+int64(len(line)), s.written+int64(len(line))
	return nil
}

// sync waits until as many bytes are durable as were ever written at some time. After a sync that
// failed it is unknown what is durable, so the spool takes no more.
func (s *fileSpool) sync(target int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.synced < target && s.err == nil {
		if s.syncing {
			s.idle.Wait()
			continue
		}
		at, last, file := s.written, s.last(), s.file
		s.syncing = true
		s.mu.Unlock()
		err := files.SyncData(file)
		s.mu.Lock()
		s.syncing = false
		if s.idle.Broadcast(); err != nil {
			s.err = err
			return err
		}
		s.synced, s.durable = max(s.synced, at), max(s.durable, last)
	}
	if s.synced < target {
		return s.err
	}
	return nil
}

// last returns the number of the last message of the file.
func (s *fileSpool) last() uint64 { return s.begin.First + uint64(len(s.starts)) - 1 }

// SetEpoch keeps the epoch, durably.
func (s *fileSpool) SetEpoch(epoch uint64) error {
	s.mu.Lock()
	err := s.write(spoolLine{Epoch: epoch})
	s.begin.Epoch = epoch
	target := s.written
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return s.sync(target)
}

// Done forgets the messages up to a number. It does not wait for the disk: messages that are
// remembered after a crash are sent again, which is harmless. So it is no error either if the disk
// is full: a later call forgets them too.
func (s *fileSpool) Done(number uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.syncing { // the file may be replaced
		s.idle.Wait()
	}
	n := int(number - s.begin.First + 1) //nolint:gosec // at most the number of messages
	s.begin.First, s.starts = number+1, s.starts[n:]
	if kept := s.size - s.keepFrom(); s.size-kept > max(spoolSlack, kept) && s.replace(s.file) == nil {
		return nil
	}
	_ = s.write(spoolLine{Done: number})
	return s.err
}

// keepFrom returns where the first message that is not acknowledged starts in the file.
func (s *fileSpool) keepFrom() int64 {
	if len(s.starts) == 0 {
		return s.size
	}
	return s.starts[0]
}

// replace replaces the file with a new one that has only the messages that are not acknowledged.
// The new file gets the name when it is durable. After an error before that, the old one is still
// in use.
func (s *fileSpool) replace(old *os.File) error {
	if s.err != nil {
		return s.err
	}
	from := s.keepFrom()
	file, head, err := s.writeNew(old, from)
	if err != nil {
		return fmt.Errorf("write new file of messages: %w", err)
	}
	err = os.Rename(s.path()+".new", s.path())
	if err == nil {
		err = files.SyncFolder(s.folder)
	}
	if err != nil {
		s.err = fmt.Errorf("write new file of messages: %w", errors.Join(err, file.Close())) // either file may have the name now
		return s.err
	}
	if old != nil {
		err = old.Close()
	}
	for i := range s.starts {
		s.starts[i] += head - from
	}
	s.file, s.size, s.synced, s.durable = file, head+s.size-from, s.written, s.last()
	if err != nil {
		return fmt.Errorf("close the old messages: %w", err)
	}
	return nil
}

// writeNew writes the new file, and returns the length of its first line.
func (s *fileSpool) writeNew(old *os.File, from int64) (file *os.File, head int64, err error) {
	begin := s.begin
	line, err := spoolLine{Begin: &begin}.encode()
	if err != nil {
		return nil, 0, err
	}
	file, err = os.OpenFile(s.path()+".new", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, 0, err
	}
	if _, err = file.Write(line); err == nil && old != nil {
		_, err = io.Copy(file, io.NewSectionReader(old, from, s.size-from))
	}
	if err = errors.Join(err, file.Sync()); err != nil {
		return nil, 0, errors.Join(err, file.Close())
	}
	return file, int64(len(line)), nil
}

// Close makes everything durable and lets another sender have the folder.
func (s *fileSpool) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.syncing {
		s.idle.Wait()
	}
	err := s.err
	if s.err == nil {
		err = s.file.Sync()
	}
	if err == nil {
		s.synced = s.written
	}
	s.err = ErrClosed
	return errors.Join(err, s.file.Close(), s.lock.Close())
}
