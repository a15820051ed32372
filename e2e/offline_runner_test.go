package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"time"
)

// A runner runs a role as a process, kills it a number of times during its work, and starts it again
// each time, until it ends by itself. A process that is to be killed waits before its last step, so
// each kill hits work that is not finished, on fast machines too.
type runner struct {
	role   role
	random *rand.Rand
	kills  int // that are to come
	killed int
	done   chan error
}

// start runs the process in the background.
func (r *runner) start(ctx context.Context) {
	r.done = make(chan error, 1)
	go func() { r.done <- r.run(ctx) }()
}

func (r *runner) run(ctx context.Context) error {
	for ; r.kills > 0; r.kills-- {
		if err := r.live(ctx, true); err != nil {
			return err
		}
		r.killed++
	}
	return r.live(ctx, false)
}

// live runs the process once, and kills it at a random step if it is to be killed.
func (r *runner) live(ctx context.Context, kill bool) error {
	own := r.role
	own.Hold = kill
	text, err := json.Marshal(own)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"="+string(text))
	var output strings.Builder
	cmd.Stderr = &output
	steps, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return err
	}
	killed := kill && r.killDuring(cmd.Process, steps)
	_, err = io.Copy(io.Discard, steps)
	err = errors.Join(err, cmd.Wait())
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case killed:
		return nil // by the signal
	case kill:
		return fmt.Errorf("%s %v ended before it was killed: %w: %s", own.Kind, own.Sources, err, output.String())
	case err != nil:
		return fmt.Errorf("%s %v: %w: %s", own.Kind, own.Sources, err, output.String())
	}
	return nil
}

// killDuring kills the process at a random one of its next steps, or when it waits before the last
// one. It reports whether it has.
func (r *runner) killDuring(p *os.Process, steps io.Reader) bool {
	at := 1 + r.random.IntN(r.role.steps())
	for lines := bufio.NewScanner(steps); lines.Scan(); at-- {
		if at <= 1 || lines.Text() == stepLast {
			return p.Kill() == nil
		}
	}
	return false
}

// The lines that a process writes.
const (
	stepDone = "step"
	stepLast = "last" // the next step is the last one, and the process waits to be killed
)

// step writes that the process begins its next step. If that is the last one, and the process is to
// be killed, step does not return.
func (r *role) step(last bool) error {
	line := stepDone
	if last && r.Hold {
		line = stepLast
	}
	_, err := fmt.Println(line)
	for line == stepLast && err == nil {
		<-time.After(time.Hour)
	}
	return err
}

// steps returns about how many steps the role has.
func (r *role) steps() int {
	switch r.Kind {
	case "shuffle":
		return max(1, len(r.Sources)*r.Each/partSize)
	case "send":
		return r.Each
	}
	return r.Total
}
