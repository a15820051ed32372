package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/testkit/freeport"
)

// A step is a command of a session and the output that the page promises.
type step struct {
	line    int
	command string
	output  []string
}

// pattern matches the output on the page. For a command in the background it matches its beginning.
func (s *step) pattern() *regexp.Regexp {
	var b strings.Builder
	b.WriteString("^")
	for _, text := range s.output {
		if strings.TrimSpace(text) == "…" {
			b.WriteString(`(?:.*\n)*?`)
			continue
		}
		b.WriteString(strings.ReplaceAll(regexp.QuoteMeta(strings.TrimRight(text, " ")), "…", ".*") + ` *\n`)
	}
	if !s.background() {
		b.WriteString("$")
	}
	return regexp.MustCompile(b.String())
}

func (s *step) background() bool { return strings.HasSuffix(strings.TrimSpace(s.command), "&") }

// A session runs the steps of one page.
type session struct {
	dir      string
	env      []string
	running  []*process
	patience time.Duration
}

// close ends what runs in the background, with all that it has started: go run has a child.
func (s *session) close() {
	for _, p := range s.running {
		for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
			_ = syscall.Kill(-p.cmd.Process.Pid, signal) // it may have ended by itself
			select {
			case <-p.gone:
			case <-time.After(drainTime):
			}
		}
	}
}

func (s *session) run(ctx context.Context, st step) error {
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	if st.background() {
		return s.start(ctx, st)
	}
	cmd := exec.CommandContext(ctx, "bash", "-c", st.command)
	cmd.Dir, cmd.Env = s.dir, s.env
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return err
	}
	return st.compare(out)
}

// start runs a command in the background and waits until it has printed the output on the page.
func (s *session) start(ctx context.Context, st step) error {
	log, err := os.CreateTemp(s.dir, "background*.log")
	if err != nil {
		return err
	}
	defer log.Close()
	p := &process{cmd: exec.Command("bash", "-c", strings.TrimSuffix(strings.TrimSpace(st.command), "&")), gone: make(chan struct{})}
	p.cmd.Dir, p.cmd.Env = s.dir, s.env
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.SysProcAttr = log, log, &syscall.SysProcAttr{Setpgid: true}
	if err := p.run(); err != nil {
		return err
	}
	s.running = append(s.running, p)
	var last error
	err = poll(ctx, 50*time.Millisecond, func() (bool, error) {
		over := p.over()
		out, err := os.ReadFile(log.Name())
		if last = st.compare(out); last != nil && over {
			return false, errors.New("the command has ended")
		}
		return last == nil, err
	})
	if err != nil {
		return fmt.Errorf("%w: %w", err, last)
	}
	return nil
}

func (s *step) compare(out []byte) error {
	out = bytes.ReplaceAll(out, []byte("\r\n"), []byte("\n")) // as HTTP headers end
	if len(out) > 0 && !bytes.HasSuffix(out, []byte("\n")) {
		out = append(out, '\n')
	}
	if s.pattern().Match(out) {
		return nil
	}
	return fmt.Errorf("line %d: $ %s\nprints\n%s\nand not\n%s", s.line, s.command, out, strings.Join(s.output, "\n"))
}

// ports are free ports in the place of those that a page names, which may be in use.
type ports map[string]string

// move replaces the ports in a text of the page, or of a file of the project.
func (p ports) move(t *testing.T, text string) string {
	t.Helper()
	return regexp.MustCompile(`(127\.0\.0\.1|0\.0\.0\.0):\d{4}\b`).ReplaceAllStringFunc(text, func(address string) string {
		host, port, _ := strings.Cut(address, ":")
		if p[port] == "" {
			_, p[port], _ = strings.Cut(freeport.Address(t), ":")
		}
		return host + ":" + p[port]
	})
}

// moved returns a step as it runs.
func (p ports) moved(t *testing.T, st step) step {
	t.Helper()
	st.command = p.move(t, st.command)
	for i, line := range st.output {
		st.output[i] = p.move(t, line)
	}
	return st
}

// withOnce returns the environment of a session: once is on the path, with another default address,
// and so is what go install installs, in a folder of its own.
func (p ports) withOnce(t *testing.T) []string {
	t.Helper()
	binary, err := onceBinary()
	must(t, err)
	address, installed, own := p.move(t, "127.0.0.1:8080"), t.TempDir(), t.TempDir()
	script := "#!/bin/sh\ncase \"$*\" in\n*--listen*) ;;\ndev*) set -- \"$@\" --listen " + address + " ;;\nesac\nexec " + binary + " \"$@\"\n"
	must(t, os.WriteFile(filepath.Join(own, "once"), []byte(script), 0o700))
	path := strings.Join([]string{installed, own, os.Getenv("PATH")}, string(os.PathListSeparator))
	// builds of all copies of the project share the cache if they do not contain its folder
	flags := "GOFLAGS=" + os.Getenv("GOFLAGS") + " -trimpath"
	return append(os.Environ(), "GOBIN="+installed, "PATH="+path, "ONCE_URL=http://"+address, flags)
}

// moveExamples replaces the ports in the examples of a copy of the project.
func (p ports) moveExamples(t *testing.T, project string) {
	t.Helper()
	must(t, filepath.WalkDir(filepath.Join(project, "examples"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if moved := p.move(t, string(text)); err == nil && moved != string(text) {
			err = os.WriteFile(path, []byte(moved), 0o600)
		}
		return err
	}))
}

// copyProject copies what belongs to the project, and nothing that earlier runs left behind, to a
// folder of its own.
func copyProject(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = ".."
	out, err := cmd.Output()
	must(t, err)
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		must(t, copyFile(filepath.Join("..", name), filepath.Join(dir, name)))
	}
	return dir
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if errors.Is(err, os.ErrNotExist) {
		return nil // deleted, and not committed yet
	}
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, info.Mode())
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

func TestASessionFindsAWrongOutput(t *testing.T) {
	const page = "# A page\n\n```console\n$ (echo up; sleep 30) &\nup\n$ printf 'a %s\\n' \\\n> b; echo took 12 ms\na b\ntook … ms\n$ seq 3\n1\n…\n$ true\n$ echo right; exit 3\n%s\n```\n"
	for _, c := range []struct{ output, fault string }{
		{"right", ""},
		{"wrong", "prints\nright"},
		{"right\nmore", "prints\nright"},
		{"…", ""},
	} {
		s := &session{dir: t.TempDir(), patience: time.Minute}
		defer s.close()
		blocks := readBlocks(strings.Replace(page, "%s\n```", c.output+"\n```", 1))
		steps, err := blocks[0].steps()
		must(t, err)
		if len(blocks) != 1 || len(steps) != 5 {
			t.Fatalf("read %+v", steps)
		}
		for _, st := range steps {
			err = errors.Join(err, s.run(t.Context(), st))
		}
		if (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%q: %v", c.output, err)
		}
	}
}
