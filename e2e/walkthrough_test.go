package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
//	         alone in a line for any lines. The ports of this machine are replaced by free ones.
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
			free := ports{}
			s := &session{dir: copyProject(t), env: free.withOnce(t), patience: 3 * time.Minute}
			free.moveExamples(t, s.dir)
			defer s.close()
			for _, st := range steps {
				must(t, s.run(t.Context(), free.moved(t, st)))
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
		"all":             "is .ci/run all",
		"ci":              "is .ci/run",
		"prove":           "the steps explore, mistakes, test, fuzz and e2e run its parts, some of them in smaller forms",
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
