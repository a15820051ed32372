package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/effectively-once/once/client"
)

// saveEvery is how often tail writes its state while there is something to print.
const saveEvery = time.Second

// A tailState is the file with the offsets at which the tail of a stream continues.
type tailState struct {
	path  string // empty: nothing is kept
	saved time.Time
	dirty bool // something was printed since
}

// A tailDocument is the content of the file.
type tailDocument struct {
	Stream  string            `json:"stream"`
	Offsets map[string]string `json:"offsets"`
}

// load returns the offsets of a file, none if there is no file.
func (s *tailState) load(stream string) (map[string]string, error) {
	if s.path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var d tailDocument
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	if err == nil && d.Stream != stream {
		err = fmt.Errorf("it is of stream %q, not of %q", d.Stream, stream)
	}
	if err != nil {
		return nil, &exitError{exitUsage, fmt.Errorf("read state %s: %w", s.path, err)}
	}
	return d.Offsets, nil
}

// save replaces the file. It is complete whenever the process is killed.
func (s *tailState) save(stream string, offsets map[string]string) (err error) {
	if s.path == "" || !s.dirty {
		return nil
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("write state: %w", err)
		}
	}()
	text, err := json.Marshal(tailDocument{stream, offsets})
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(s.path), filepath.Base(s.path)+".*")
	if err != nil {
		return err
	}
	_, err = file.Write(append(text, '\n'))
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = os.Rename(file.Name(), s.path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	s.saved, s.dirty = time.Now(), false
	return nil
}

// followStream prints the entries of all groups of a stream until the context ends. The state never
// has an offset of an entry that was not printed.
func (a *app) followStream(ctx context.Context, c *client.Client, o *tailing) error {
	state := &tailState{path: o.state}
	offsets, err := state.load(o.stream)
	if err != nil {
		return err
	}
	var tail *client.StreamTail
	aside := 0
	save := func() { err = errors.Join(err, state.save(o.stream, tail.Offsets())) }
	// listed saves the ends of all groups, which are known then: a later tail continues there.
	listed := func() {
		state.dirty = state.dirty || o.after == client.FromNow && state.saved.IsZero()
		save()
	}
	tail = c.TailStream(o.stream, client.StreamTailOptions{After: offsets, FromNow: o.after == client.FromNow, NoFollow: o.noFollow, OnWait: listed})
	for {
		e, failed := tail.Next(ctx)
		lost, isLost := errors.AsType[*client.ExpiredError](failed)
		ahead, isAhead := errors.AsType[*client.AheadError](failed)
		switch {
		case failed == nil:
			if _, err := io.WriteString(a.out, o.line(&e)); err != nil {
				return fmt.Errorf("print entry: %w", err)
			}
			if state.dirty = true; time.Since(state.saved) > saveEvery {
				save()
			}
		case isLost:
			_, _ = fmt.Fprintf(a.err, "%v\ngoing on in this group with number %d\n", failed, lost.First)
		case isAhead:
			aside++
			_, _ = fmt.Fprintf(a.err, "%v\n%s\n", failed, o.afterRestore(ahead))
		case errors.Is(failed, client.ErrEnd):
			listed()
			return errors.Join(err, setAside(aside))
		default:
			save()
			return errors.Join(err, o.ended(ctx, failed, !state.saved.IsZero()), setAside(aside))
		}
		if err != nil {
			return err
		}
	}
}

// afterRestore says how to read on in a group that was set aside.
func (o *tailing) afterRestore(e *client.AheadError) string {
	if o.state == "" {
		group := *o
		group.group = e.Group
		return "to read what is appended to it from now on: " + group.command(e.Next)
	}
	return fmt.Sprintf("to read what is appended to it from now on, write %s as its offset into %s", e.Next, o.state)
}

// setAside returns an error if groups were not read to their ends.
func setAside(groups int) error {
	if groups == 0 {
		return nil
	}
	return fmt.Errorf("groups set aside, because the server has lost entries that were read: %d", groups)
}

// ended returns the error of the command for the one that ended a tail of a stream. saved says that
// the state has where to continue.
func (o *tailing) ended(ctx context.Context, err error, saved bool) error {
	switch {
	case ctx.Err() == nil:
		return err
	case o.state == "":
		return &exitError{exitIncomplete, errors.New("interrupted")}
	case saved:
		return &exitError{exitIncomplete, fmt.Errorf("interrupted; to continue: %s", o.command(""))}
	}
	return &exitError{exitIncomplete, fmt.Errorf("interrupted; to continue: %s", o.command(o.after))}
}
