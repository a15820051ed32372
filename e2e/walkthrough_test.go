package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The pages show commands in two kinds of fenced blocks:
//
//	console  is a session: "$ " begins a command, "> " continues it, and the lines below are its
//	         output. The blocks of a page run here in one copy of the project, each command by a
//	         separate bash in the project's folder, and the outputs are compared. The command once
//	         is on the path; go install puts binaries into a folder before it. A command that ends
//	         in "&" runs in the background until the page ends; the next command starts when the
//	         output on the page is there. In an output "…" stands for anything within a line, and
//	         alone in a line for any lines.
//	sh       are commands without output that .ci/run runs, by themselves or as targets of the
//	         Makefile: a test looks for them there. Text after "  #" is a comment.

var pages = []string{"../*.md", "../docs/*.md"}

// A block is a fenced block of a page.
type block struct {
	kind  string
	line  int // of its first line
	lines []string
}

// readBlocks returns a page's fenced blocks.
func readBlocks(page string) (blocks []block) {
	var open *block
	for i, text := range strings.Split(page, "\n") {
		kind, fence := strings.CutPrefix(text, "```")
		switch {
		case fence && open == nil:
			open = &block{kind: strings.TrimSpace(kind), line: i + 2}
		case fence:
			blocks, open = append(blocks, *open), nil
		case open != nil:
			open.lines = append(open.lines, text)
		}
	}
	return blocks
}

// A step is a command of a session and the output that the page promises.
type step struct {
	line    int
	command string
	output  []string
}

func (b *block) steps() (steps []step, err error) {
	for i, text := range b.lines {
		command, isCommand := strings.CutPrefix(text, "$ ")
		more, isMore := strings.CutPrefix(text, "> ")
		switch {
		case isCommand:
			steps = append(steps, step{line: b.line + i, command: command})
		case len(steps) == 0:
			return nil, fmt.Errorf("line %d: a console block begins with \"$ \"", b.line+i)
		case isMore && len(steps[len(steps)-1].output) == 0:
			steps[len(steps)-1].command += "\n" + more
		default:
			last := &steps[len(steps)-1]
			last.output = append(last.output, text)
		}
	}
	return steps, nil
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

func TestEverySessionOnEveryPagePrintsTheOutputOfThePage(t *testing.T) {
	sessions := 0
	for _, path := range findPages(t) {
		text, err := os.ReadFile(path)
		must(t, err)
		var steps []step
		for _, b := range readBlocks(string(text)) {
			if b.kind == "console" {
				more, err := b.steps()
				must(t, err)
				steps = append(steps, more...)
			}
		}
		if len(steps) == 0 {
			continue
		}
		sessions++
		t.Run(filepath.Base(path), func(t *testing.T) {
			needPort(t, "127.0.0.1:8080")
			s := &session{dir: copyProject(t), env: withOnce(t), patience: 3 * time.Minute}
			defer s.close()
			for _, st := range steps {
				must(t, s.run(t.Context(), st))
			}
		})
	}
	if sessions == 0 {
		t.Error("no page shows a session")
	}
}

func TestEveryOtherCommandOnEveryPageIsRunSomewhere(t *testing.T) {
	ci, err := os.ReadFile("../.ci/run")
	must(t, err)
	makefile, err := os.ReadFile("../Makefile")
	must(t, err)
	for _, path := range findPages(t) {
		text, err := os.ReadFile(path)
		must(t, err)
		for _, b := range readBlocks(string(text)) {
			switch b.kind {
			case "bash", "shell", "zsh", "shell-session":
				t.Errorf("%s:%d: write console for sessions and sh for commands", path, b.line)
			case "sh":
				for i, command := range b.lines {
					if !runsElsewhere(command, string(ci), string(makefile)) {
						t.Errorf("%s:%d: nobody runs %q: show it as a console session, or run it in .ci/run", path, b.line+i, command)
					}
				}
			}
		}
	}
}

// checkedOtherwise are targets of the Makefile whose recipes .ci/run does not run as they stand,
// and what is there in their place.
func checkedOtherwise() map[string]string {
	return map[string]string{
		"ci":              "is .ci/run",
		"prove":           "the steps prove, test, fuzz and e2e run its parts, some of them in smaller forms",
		"bench":           "measures, and its numbers decide nothing; its tests run with all others",
		"synth":           "the step infra synthesizes the same app, the step stack builds the functions and deploys it",
		"localstack-test": "the step stack runs localstack/test.sh with each emulator",
		"ministack-test":  "the step stack runs localstack/test.sh with each emulator",
	}
}

// runsElsewhere reports whether .ci/run runs a command, or all that its target of the Makefile
// does.
func runsElsewhere(command, ci, makefile string) bool {
	command, _, _ = strings.Cut(command, "  #")
	command = strings.TrimSpace(command)
	if command == "" || strings.HasPrefix(command, "#") {
		return true
	}
	target, ok := strings.CutPrefix(command, "make ")
	if !ok {
		return strings.Contains(ci, command)
	}
	recipe := recipeOf(target, makefile)
	if _, ok := checkedOtherwise()[target]; ok {
		return len(recipe) > 0
	}
	for _, line := range recipe {
		if !runsSteps(line, ci) {
			return false
		}
	}
	return len(recipe) > 0
}

// recipeOf returns the lines of a target's recipe, or none if there is no such target.
func recipeOf(target, makefile string) (lines []string) {
	_, rest, _ := strings.Cut("\n"+makefile, "\n"+target+":")
	for i, line := range strings.Split(rest, "\n") {
		text, ok := strings.CutPrefix(line, "\t")
		switch {
		case ok:
			lines = append(lines, text)
		case i > 0:
			return lines
		}
	}
	return lines
}

// runsSteps reports whether a line of a recipe, behind its variables, runs steps of .ci/run that a
// run without arguments has too.
func runsSteps(line, ci string) bool {
	_, names, ok := strings.Cut(" "+line+" ", " .ci/run ")
	if !ok {
		return false
	}
	_, steps, _ := strings.Cut(ci, "steps=(format ")
	steps, _, _ = strings.Cut("format "+steps, ")")
	for name := range strings.FieldsSeq(names) {
		if !slices.Contains(strings.Fields(steps), name) {
			return false
		}
	}
	return strings.TrimSpace(names) != ""
}

func TestACommandThatIsNotRunIsFound(t *testing.T) {
	const ci = "go test ./...\nsteps=(format tidy e2e)\n"
	const makefile = "e2e: ## checks\n\tKILLS=3 .ci/run e2e\n\nlint:\n\t.ci/run format lint\n\nvuln:\n\tscan ./...\n\nboth:\n\t.ci/run tidy\n\tscan\nbench:\n\tgo run ./bench\n"
	for command, want := range map[string]bool{
		"go test ./...  # all": true, "go run ./nothing": false, "# a comment": true, "make e2e  # long": true, "make lint": false, "make vuln": false, "make both": false,
		// which the list names, and this Makefile does not have
		"make nothing": false, "make bench": true, "make synth": false,
	} {
		if got := runsElsewhere(command, ci, makefile); got != want {
			t.Errorf("%q: %v, want %v", command, got, want)
		}
	}
}

func findPages(t *testing.T) (paths []string) {
	t.Helper()
	for _, pattern := range pages {
		found, err := filepath.Glob(pattern)
		must(t, err)
		if len(found) == 0 {
			t.Errorf("there is no %s", pattern)
		}
		paths = append(paths, found...)
	}
	return paths
}

// withOnce returns the environment of a session: once is on the path, and so is what go install
// installs, in a folder of its own.
func withOnce(t *testing.T) []string {
	t.Helper()
	binary, err := onceBinary()
	must(t, err)
	installed := t.TempDir()
	path := strings.Join([]string{installed, filepath.Dir(binary), os.Getenv("PATH")}, string(os.PathListSeparator))
	return append(os.Environ(), "GOBIN="+installed, "PATH="+path)
}

func needPort(t *testing.T, address string) {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatalf("the pages use the default address, and something is there: %v", err)
	}
	must(t, listener.Close())
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
		s := &session{dir: t.TempDir(), patience: 10 * time.Second}
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
