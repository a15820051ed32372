package e2e

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"
)

var (
	messages  = flag.Int("messages", 5000, "how many messages are generated for each admission")
	kills     = flag.Int("kills", 20, "how often each server is killed while clients send")
	killEvery = flag.Duration("kill-every", 250*time.Millisecond, "mean time between kills of the functions' processes")
	duplicate = flag.Float64("duplicate", 0.2, "share of deliveries that the functions get twice")
	hang      = flag.Float64("hang", 0.005, "share of invocations in which a function hangs")
	seed      = flag.Uint64("seed", 0, "seed of the random choices; 0 takes a new one")
)

// bin is the folder of the binaries.
var bin string

// onceBinary is the product; crashBinary can kill itself at the boundaries of the protocol's steps;
// lambdaBinary runs the functions as Lambda does.
var (
	onceBinary   = sync.OnceValues(func() (string, error) { return build("once", "./cmd/once") })
	lambdaBinary = sync.OnceValues(func() (string, error) { return build("lambda", "./localstack/lambda") })
	crashBinary  = sync.OnceValues(func() (string, error) { return build("once-crashpoints", "-tags", "crashpoints", "./cmd/once") })
)

// parallel is the default of -parallel: such tests wait for disks and other processes most of the
// time.
const parallel = 4

func TestMain(m *testing.M) {
	if text := os.Getenv(roleVariable); text != "" { // this is a client process, see role
		if err := play(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	err := errors.Join(flag.Set("test.parallel", strconv.Itoa(parallel)), selectGroups())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	if bin, err = os.MkdirTemp("", "once-bin"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := os.RemoveAll(bin); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func build(name string, args ...string) (string, error) { return buildIn("..", name, args...) }

// buildIn builds a program of the module in a folder.
func buildIn(folder, name string, args ...string) (string, error) {
	path := filepath.Join(bin, name)
	cmd := exec.Command("go", append([]string{"build", "-ldflags=-w", "-o", path}, args...)...)
	cmd.Dir = folder
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", name, err, out)
	}
	return path, nil
}

// newRandom returns the source of a test's random choices; its log names the seed that repeats
// them.
func newRandom(t *testing.T) *rand.Rand {
	t.Helper()
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("random choices: -seed=%d", s)
	return rand.New(rand.NewPCG(s, 0))
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}
