package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/client/filecursor"
)

// skipWait is how long a skip waits for the entries that it skips.
const skipWait = 10 * time.Second

// known describes a session that exists. A name that was mistyped must not become a session: the
// pool would deal entries to it.
func (o *operating) known(ctx context.Context, c *client.Client) (client.SessionInfo, error) {
	info, err := c.Session(ctx, o.session.Stream, o.session.Group, o.session.Name)
	if errors.Is(err, client.UnknownSession) {
		return info, &exitError{exitUnknown, fmt.Errorf("%w\nto list the sessions: once sessions %s%s", err, o.session.Stream, ofGroup(o.session.Group))}
	}
	return info, err
}

// open takes a session that exists.
func (o *operating) open(ctx context.Context, c *client.Client) (*client.Session, error) {
	info, err := o.known(ctx, c)
	if err != nil {
		return nil, err
	}
	if info.Retired {
		return nil, &exitError{exitRefused, fmt.Errorf("session %s of %s is retired: its next consumer begins a new life, with the numbers from 1", safe(o.session.Name), o.session.Stream)}
	}
	return c.OpenSession(ctx, o.session)
}

// retireOpened closes a session that was taken. It returns the last number that counts as
// processed, or is skipped.
func (o *operating) retireOpened(ctx context.Context, s *client.Session) (number uint64, err error) {
	switch {
	case o.skip > 0:
		if err := o.reaches(s); err != nil {
			return 0, err
		}
		return o.skip, s.RetireSkipping(ctx, o.skip)
	case o.file != "":
		f, err := filecursor.Open(ctx, o.file, s.Opened(), filecursor.Options{MustExist: true})
		if err != nil {
			return 0, err
		}
		defer func() { _ = f.Close() }() // it was only read
		number = f.Number()
		return number, s.Retire(ctx, &number)
	}
	if number, err = o.before(s); err != nil {
		return 0, err
	}
	return number, s.Retire(ctx, &number)
}

// before returns the number before the first entry that is to be processed.
func (o *operating) before(s *client.Session) (uint64, error) {
	switch {
	case o.from == 0: // the server's
		return s.Cursor(), nil
	case o.from-1 > s.Cursor():
		return 0, &exitError{exitUsage, fmt.Errorf("entries up to %d were reported as processed: --from %d would skip entries, which --skip-to does", s.Cursor(), o.from)}
	}
	return o.from - 1, nil
}

// reaches returns an error if a session has no entry to skip to.
func (o *operating) reaches(s *client.Session) error {
	switch last := s.Opened().Last; {
	case o.skip < s.Cursor():
		return &exitError{exitUsage, fmt.Errorf("entries up to %d were reported as processed: --skip-to %d would repeat entries, which --from does", s.Cursor(), o.skip)}
	case o.session.Group == "" && o.skip > last:
		return &exitError{exitUsage, fmt.Errorf("the session has entries up to %d: skip to at most %d", last, last)}
	}
	return nil
}

// skipEntries prints the entries after the cursor up to a number, and moves the cursor past them.
func (a *app) skipEntries(ctx context.Context, s *client.Session, last uint64) error {
	o := s.Opened()
	if err := (&operating{session: client.SessionOptions{Group: o.Group}, skip: last}).reaches(s); err != nil {
		return err
	}
	for s.Cursor() < last {
		to, err := a.skipSome(ctx, s, last)
		if err != nil {
			return err
		}
		if err := s.Commit(ctx, to, client.CommitOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// skipSome prints the next entries, and returns the number of the last one.
func (a *app) skipSome(ctx context.Context, s *client.Session, last uint64) (to uint64, err error) {
	waiting, cancel := context.WithTimeout(ctx, skipWait)
	defer cancel()
	b, err := s.Next(waiting)
	expired, isExpired := errors.AsType[*client.ExpiredError](err)
	switch {
	case isExpired && expired.First > s.Cursor()+1:
		to = min(last, expired.First-1)
		if err := a.note(fmt.Sprintf("entries %d to %d have expired\n", s.Cursor()+1, to)); err != nil {
			return 0, err
		}
		return to, s.Continue(ctx, to)
	case errors.Is(err, client.ErrEnd), ctx.Err() == nil && waiting.Err() != nil:
		return 0, &exitError{exitRefused, fmt.Errorf("the session has no entries after %d: skip to at most %d", s.Cursor(), s.Cursor())}
	case err != nil:
		return 0, err
	}
	for i := range b.Entries {
		if b.Entries[i].Number <= last {
			if _, err := io.WriteString(a.out, oneLine(newTailLine(&b.Entries[i]))); err != nil {
				return 0, fmt.Errorf("print entry: %w", err)
			}
		}
	}
	return min(b.To, last), nil
}
