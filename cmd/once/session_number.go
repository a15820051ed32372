package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/client/filecursor"
)

// maxSkip is how many entries one commit can skip.
const maxSkip = 10_000

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

// jump is more entries than a log has: numbers are so far apart only at a restore, and none of them
// has an entry. Between two restores within 33 seconds the numbers are nearer, see [record.Restores].
const jump = 1 << 26

// skipEntries makes dead letters of the entries after the cursor, up to a number, and moves the
// cursor past them.
func (o *operating) skipEntries(ctx context.Context, s *client.Session) error {
	if err := o.reaches(s); err != nil {
		return err
	}
	if o.session.Group != "" && o.skip-s.Cursor() > jump {
		return s.Commit(ctx, o.skip, client.CommitOptions{})
	}
	for s.Cursor() < o.skip {
		to := min(o.skip, s.Cursor()+maxSkip)
		if err := s.Commit(ctx, to, client.CommitOptions{Skip: true, Skipped: "a person has skipped it"}); err != nil {
			return err
		}
	}
	return nil
}
