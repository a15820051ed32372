package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
)

// maxShown is how many invalid lines of a file are reported individually.
const maxShown = 20

// sendFile sends a file of JSON lines. It reads a regular file twice, so that an error at its end
// is found before anything is sent.
func (a *app) sendFile(ctx context.Context, c sender, o *sending) error {
	twice := false
	if o.file != "-" {
		var err error
		if twice, err = regular(o.file); err != nil {
			return &exitError{exitUsage, fmt.Errorf("read messages: %w", err)}
		}
	}
	if !twice {
		return a.sendOnePass(ctx, c, o)
	}
	file, err := os.Open(o.file)
	if err != nil {
		return &exitError{exitUsage, fmt.Errorf("read messages: %w", err)}
	}
	defer func() { _ = file.Close() }() // it was only read
	count, sum, err := a.checkLines(ctx, file, o)
	if err != nil {
		return err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("read messages: %w", err)
	}
	hashed := sha256.New()
	reader := newLineReader(io.TeeReader(file, hashed), o.message.Stream, contentKey(sum))
	return a.sendLines(ctx, c, o, count, func() (line, error) {
		l, err := reader.next()
		if errors.Is(err, io.EOF) && sumOf(hashed) != sum {
			return line{}, errors.New("the file changed while it was sent")
		}
		return l, err
	})
}

// checkLines reads the whole file. It returns the number of messages and the file's SHA-256.
func (a *app) checkLines(ctx context.Context, file io.Reader, o *sending) (count int, sum [sha256.Size]byte, err error) {
	hashed := sha256.New()
	reader := newLineReader(io.TeeReader(file, hashed), o.message.Stream, func(int) string { return "checked" })
	var bad []error
	for ctx.Err() == nil {
		_, err := reader.next()
		var broken *brokenError
		switch {
		case errors.Is(err, io.EOF):
			if len(bad) > 0 {
				return 0, sum, badLines(bad)
			}
			return count, sumOf(hashed), nil
		case errors.As(err, &broken):
			return 0, sum, badLines(append(bad, err))
		case err != nil && len(bad) == maxShown:
			return 0, sum, badLines(append(bad, errors.New("there may be more mistakes")))
		case err != nil:
			bad = append(bad, err)
		default:
			count++
		}
	}
	return 0, sum, context.Cause(ctx)
}

func badLines(bad []error) error {
	return &exitError{exitUsage, fmt.Errorf("read messages, nothing was sent:\n%w", errors.Join(bad...))}
}

func sumOf(h hash.Hash) (sum [sha256.Size]byte) {
	h.Sum(sum[:0])
	return sum
}

// sendOnePass sends while it reads, from standard input or a pipe.
func (a *app) sendOnePass(ctx context.Context, c sender, o *sending) error {
	in := a.in
	if o.file != "-" {
		file, err := os.Open(o.file)
		if err != nil {
			return &exitError{exitUsage, fmt.Errorf("read messages: %w", err)}
		}
		defer func() { _ = file.Close() }() // it was only read
		in = file
	}
	return a.sendLines(ctx, c, o, -1, newLineReader(in, o.message.Stream, nil).next)
}

// sendLines sends the messages that next returns and prints the summary. count is their number, -1
// if it is unknown.
func (a *app) sendLines(ctx context.Context, c sender, o *sending, count int, next func() (line, error)) error {
	shown := 0
	bar := a.progress(count, "sending", "messages")
	b := &batch{
		send: together(c), workers: o.concurrency,
		done: func() { _ = bar.Add(1) }, // a closed terminal shows no progress
		refused: func(number int, err error) {
			if shown++; shown <= maxShown {
				_, _ = fmt.Fprintf(a.err, "line %d: %v\n", number, err)
			}
		},
	}
	t, err := b.run(ctx, next)
	_ = bar.Exit()
	if shown > maxShown {
		_, _ = fmt.Fprintf(a.err, "and %d more refused\n", shown-maxShown)
	}
	if count > t.Lines {
		t.Unacknowledged += count - t.Lines // they were not read
		t.Lines = count
	}
	return errors.Join(a.printTally(t, o.json), verdictOf(t, err, ctx.Err()))
}

func (a *app) progress(count int, doing, what string) *progressbar.ProgressBar {
	return progressbar.NewOptions(count,
		progressbar.OptionSetWriter(a.err), progressbar.OptionSetVisibility(a.terminal), progressbar.OptionSetDescription(doing),
		progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString(what),
		progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(),
		// with an interval, it would continue to draw forever if the number is unknown
		progressbar.OptionSetSpinnerChangeInterval(0))
}

func (a *app) printTally(t tally, asJSON bool) error {
	if asJSON {
		return printJSON(a.out, t)
	}
	text := fmt.Sprintf("%s: %d accepted, %d replayed, %d failed", plural(t.Lines, "message"), t.Accepted, t.Replayed, t.Failed)
	if t.Unacknowledged > 0 {
		text += fmt.Sprintf(", %d not acknowledged", t.Unacknowledged)
	}
	_, err := fmt.Fprintln(a.out, text)
	return err
}

// verdictOf returns the error with the exit code: the cause if nothing was acknowledged, incomplete
// if something was.
func verdictOf(t tally, err, interrupted error) error {
	acknowledged := t.Accepted + t.Replayed
	var bad *lineError
	switch {
	case acknowledged > 0 && (err != nil || t.Failed+t.Unacknowledged > 0), interrupted != nil:
		return &exitError{exitIncomplete, err}
	case errors.As(err, &bad) && t.Failed+t.Unacknowledged == 0:
		return &exitError{exitUsage, err}
	case err != nil:
		return err
	case t.Failed > 0:
		return &exitError{code: exitRefused}
	}
	return nil
}
