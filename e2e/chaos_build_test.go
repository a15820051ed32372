package e2e

import (
	"slices"
	"sync"

	"github.com/effectively-once/once/internal/testkit/overlay"
)

// The binaries of a chaos run are the product's own, with three differences. The clock can be set
// ahead. The pollers of the embedded system have shorter time limits, so that a stall can exceed
// them and a failed message is retried soon. Webhooks have shorter retries and pauses, so that a
// failing one is soon left to the next delivery. The source is changed on its way to the compiler:
// the product has no switch for any of them.

// chaosChanges are all differences of a chaos build.
var chaosChanges = []overlay.Change{
	{File: "internal/chaosclock/chaosclock.go", New: chaosClock},
	{File: "internal/system/embedded/embedded.go", Old: "\nimport (", New: clockImport},
	{File: "internal/system/embedded/embedded.go", Old: "o.Now = time.Now\n", New: "o.Now = chaosclock.Now\n"},
	{File: "internal/system/pipeline/pipeline.go", Old: "\nimport (", New: clockImport},
	{File: "internal/system/pipeline/pipeline.go", Old: "c.Now = time.Now\n", New: "c.Now = chaosclock.Now\n"},
	{File: "internal/dedup/dynamostore/dynamostore.go", Old: "\nimport (", New: clockImport},
	{File: "internal/dedup/dynamostore/dynamostore.go", Old: "options.Now = time.Now\n", New: "options.Now = chaosclock.Now\n"},
	{File: "internal/system/embedded/poller.go", Old: "pollVisibility = 60 * time.Second", New: "pollVisibility = 8 * time.Second"},
	{File: "internal/system/embedded/poller.go", Old: "pollTimeout = 30 * time.Second", New: "pollTimeout = 6 * time.Second"},
	{File: "internal/record/retry.go", Old: "Max: 5 * time.Minute", New: "Max: 3 * time.Second"},
	{File: "internal/record/retry.go", Old: "Max: 10 * time.Minute", New: "Max: 3 * time.Second"},
	{File: "internal/destination/webhook/sender.go", Old: "cmp.Or(o.Budget, 10*time.Second)", New: "cmp.Or(o.Budget, 200*time.Millisecond)"},
	{File: "internal/destination/webhook/breaker.go", Old: "MaxInterval: 30 * time.Second", New: "MaxInterval: time.Second"},
}

const clockImport = "\nimport \"github.com/effectively-once/once/internal/chaosclock\"\n\nimport ("

// chaosClock is the clock of chaos builds: it is ahead by the number of milliseconds in the file
// named by CHAOS_CLOCK.
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

// chaosOverlay writes the differences of a chaos build, and more changes, for the compiler.
func chaosOverlay(more ...overlay.Change) (string, error) {
	files, err := overlay.Apply("..", append(slices.Clone(chaosChanges), more...))
	if err != nil {
		return "", err
	}
	return overlay.Write(bin, files)
}

var chaosBinary = sync.OnceValues(func() (string, error) { return buildChaos("once-chaos") })

func buildChaos(name string, more ...overlay.Change) (string, error) {
	list, err := chaosOverlay(more...)
	if err != nil {
		return "", err
	}
	return build(name, "-overlay", list, "./cmd/once")
}

// chaosFunctions returns a folder with the bootstrap binaries.
var chaosFunctions = sync.OnceValues(func() (string, error) {
	list, err := chaosOverlay()
	if err != nil {
		return "", err
	}
	return buildFunctions("chaos-functions", "-overlay", list)
})
