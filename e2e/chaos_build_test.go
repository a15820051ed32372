package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// The binaries of a chaos run are the product's own, but for a clock that can be told to jump, and pollers of the embedded system that are less patient, so that a stall can be longer than they wait.
// The source is changed on its way to the compiler: the product has no switch for any of it.

// A change puts new text in the place of old text in a file.
type change struct{ file, from, to string }

// chaosChanges are everything in which a chaos build differs.
var chaosChanges = []change{
	{"internal/local/local.go", "\nimport (", clockImport},
	{"internal/local/local.go", "o.Now = time.Now\n", "o.Now = chaosclock.Now\n"},
	{"internal/pipeline/pipeline.go", "\nimport (", clockImport},
	{"internal/pipeline/pipeline.go", "c.Now = time.Now\n", "c.Now = chaosclock.Now\n"},
	{"internal/dedup/dynamostore/dynamostore.go", "\nimport (", clockImport},
	{"internal/dedup/dynamostore/dynamostore.go", "options.Now = time.Now\n", "options.Now = chaosclock.Now\n"},
	{"internal/local/poller.go", "pollVisibility = 60 * time.Second", "pollVisibility = 8 * time.Second"},
	{"internal/local/poller.go", "pollTimeout    = 30 * time.Second", "pollTimeout    = 6 * time.Second"},
}

const clockImport = "\nimport \"github.com/effectively-once/once/internal/chaosclock\"\n\nimport ("

// chaosClock is the clock of chaos builds: it is ahead by as many milliseconds as the file says that CHAOS_CLOCK names.
const chaosClock = `package chaosclock

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

var ahead atomic.Int64

func init() {
	path := os.Getenv("CHAOS_CLOCK")
	if path == "" {
		return
	}
	read(path)
	go func() {
		for range time.Tick(20 * time.Millisecond) {
			read(path)
		}
	}()
}

func read(path string) {
	text, err := os.ReadFile(path)
	if n, bad := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && bad == nil {
		ahead.Store(n)
	}
}

func Now() time.Time { return time.Now().Add(time.Duration(ahead.Load()) * time.Millisecond) }
`

// chaosOverlay writes the changed files and the list that names them for the compiler, and gives the list's path.
var chaosOverlay = sync.OnceValues(func() (string, error) {
	root, err := filepath.Abs("..")
	if err != nil {
		return "", err
	}
	text := map[string]string{filepath.Join(root, "internal/chaosclock/chaosclock.go"): chaosClock}
	for _, c := range chaosChanges {
		path := filepath.Join(root, c.file)
		if text[path] == "" {
			source, err := os.ReadFile(path)
			if err != nil {
				return "", err
			}
			text[path] = string(source)
		}
		if n := strings.Count(text[path], c.from); n != 1 {
			return "", fmt.Errorf("%s has %q %d times, not once: chaosChanges must follow the source", c.file, c.from, n)
		}
		text[path] = strings.Replace(text[path], c.from, c.to, 1)
	}
	replace := map[string]string{}
	for path, content := range text {
		changed := filepath.Join(bin, fmt.Sprintf("chaos-%d.go", len(replace)))
		if err := os.WriteFile(changed, []byte(content), 0o600); err != nil {
			return "", err
		}
		replace[path] = changed
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	name := filepath.Join(bin, "chaos-overlay.json")
	return name, os.WriteFile(name, list, 0o600)
})

var chaosBinary = sync.OnceValues(func() (string, error) {
	list, err := chaosOverlay()
	if err != nil {
		return "", err
	}
	return build("once-chaos", "-overlay", list)
})

// chaosFunctions is a folder with the bootstrap binaries.
var chaosFunctions = sync.OnceValues(func() (string, error) {
	list, err := chaosOverlay()
	if err != nil {
		return "", err
	}
	folder := filepath.Join(bin, "chaos-functions")
	for _, name := range []string{"ingest", "process", "publish"} {
		cmd := exec.Command("go", "build", "-overlay", list, "-tags", "lambda.norpc,grpcnotrace", "-o", filepath.Join(folder, name, "bootstrap"), "./functions/"+name)
		cmd.Dir = ".."
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build function %s: %w\n%s", name, err, out)
		}
	}
	return folder, nil
})
