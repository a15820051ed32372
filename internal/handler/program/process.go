package program

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/effectively-once/once/internal/handler"
	"github.com/effectively-once/once/internal/shell"
)

const (
	// stopTime is how long a program may take to end after its standard input was closed.
	stopTime = 2 * time.Second
	// leftTime is how long outputs are read after the end of a program: a process that left its
	// group may keep them open.
	leftTime = time.Second
)

// A process is one run of a program.
type process struct {
	cmd     *exec.Cmd
	in, out *os.File
	lines   chan []byte   // closed at the end of the standard output
	quit    chan struct{} // closed when nobody takes lines any more
	exited  chan struct{} // closed when the process has ended
	stderr  *stderr
	tooLong bool // the output ended with a line that is too long; set before lines is closed
}

func start(command string, env []string, output io.Writer) (*process, error) {
	p := &process{lines: make(chan []byte), quit: make(chan struct{}), exited: make(chan struct{}), stderr: &stderr{to: output}}
	p.cmd = shell.Command(context.Background(), command) // it ends with kill
	p.cmd.Env = append(append(os.Environ(), "PYTHONUNBUFFERED=1"), env...)
	p.cmd.Stderr, p.cmd.WaitDelay = p.stderr, leftTime
	in, writer, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	reader, out, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, in.Close(), writer.Close())
	}
	p.cmd.Stdin, p.cmd.Stdout, p.in, p.out = in, out, writer, reader
	err = p.cmd.Start()
	_, _ = in.Close(), out.Close() // the process has its own
	if err != nil {
		return nil, errors.Join(err, reader.Close(), writer.Close())
	}
	go p.read()
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait()                                    // the process state has the result
		_ = p.out.SetReadDeadline(time.Now().Add(leftTime)) //nolint:forbidigo // a deadline of the machine
	}()
	return p, nil
}

// read reads the lines of the standard output.
func (p *process) read() {
	defer close(p.lines)
	defer func() { _ = p.out.Close() }()
	s := bufio.NewScanner(p.out)
	s.Buffer(nil, handler.MaxAnswer+1)
	s.Split(wholeLines)
	for s.Scan() {
		select {
		case p.lines <- append([]byte(nil), s.Bytes()...):
		case <-p.quit:
			return
		}
	}
	p.tooLong = errors.Is(s.Err(), bufio.ErrTooLong)
}

// wholeLines is [bufio.ScanLines] without a last line that does not end: the process died while it
// wrote.
func wholeLines(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if atEOF && bytes.IndexByte(data, '\n') < 0 {
		return len(data), nil, nil
	}
	return bufio.ScanLines(data, atEOF)
}

// unusable returns why the process can't get a request, or "".
func (p *process) unusable() string {
	select {
	case <-p.exited:
		return "it has ended: " + p.cmd.ProcessState.String()
	case line, ok := <-p.lines:
		if ok {
			return notAnswer(line).Error()
		}
		return "it has closed its standard output"
	default:
		return ""
	}
}

// exchange writes a request and returns the next line. It ends early if killed is closed. After an
// error, the process can only be killed.
func (p *process) exchange(request []byte, timeout time.Duration, killed <-chan struct{}) ([]byte, error) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	// One write, because a process may answer before it has read all of it.
	line := append(slices.Clip(request), '\n')
	go func() { _, _ = p.in.Write(line) }() // it may not read while it writes, or has ended
	select {
	case line, ok := <-p.lines:
		if ok {
			return line, nil
		}
		return nil, p.died()
	case <-timer.C:
		return nil, fmt.Errorf("the program of the handler did not answer within %v, and was killed", timeout)
	case <-killed:
		return nil, errors.New("the program of the handler was killed before it answered")
	}
}

// died returns why the standard output has ended.
func (p *process) died() error {
	if p.tooLong {
		return fmt.Errorf("the answer of the program has more than %d bytes; the program was killed", handler.MaxAnswer)
	}
	select {
	case <-p.exited:
	case <-time.After(leftTime):
		return errors.New("the program of the handler closed its standard output, and was killed")
	}
	text := p.cmd.ProcessState.String()
	if code := p.cmd.ProcessState.ExitCode(); code == 126 || code == 127 {
		text += ", so the shell can't run it"
	}
	if line := p.stderr.lastLine(); line != "" {
		text += "; the last line of its standard error: " + line
	}
	return fmt.Errorf("the program of the handler ended before it answered: %s", text)
}

// stop closes the standard input, and kills the process if it does not end, or if killed is closed.
func (p *process) stop(killed <-chan struct{}) {
	_ = p.in.Close()
	select {
	case <-p.exited:
	case <-killed:
	case <-time.After(stopTime):
	}
	p.kill()
}

// kill kills the process and those that it has started, and waits for its end.
func (p *process) kill() {
	shell.Kill(p.cmd.Process)
	close(p.quit)
	_ = p.in.Close()
	_ = p.out.SetReadDeadline(time.Now().Add(leftTime)) //nolint:forbidigo // a deadline of the machine
	<-p.exited
}
