package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A consumer is one row of the table.
type consumer struct {
	name   string
	stages []stage
	ours   bool
	fifo   bool // sends to a first-in-first-out queue instead of a webhook
}

// A stage is a function: the queues that invoke it, and the command that starts a process of it.
type stage struct {
	queue   string // the prefix of the names of its queues
	command []string
	env     []string
	// handler is the command of a process that the function calls, to which its port is added; none
	// if the function handles messages itself.
	handler []string
}

// workers returns the number of processes of a stage. While some are stopped, others have to work.
func (s *stage) workers(f fault) int {
	if f == stalled {
		return 8
	}
	return 3
}

// config returns the configuration of once, with a handler at an address if that is not empty.
func (c *consumer) config(address, handler string) string {
	destination := fmt.Sprintf("{webhook: %q}", "http://"+address+"/send")
	if c.fifo {
		destination = fmt.Sprintf("{sqs: %q}", "http://"+address+"/000000000000/"+outQueue)
	}
	text := "streams:\n  messages: {admission: key, destinations: [receiver]}\ndestinations:\n  receiver: " + destination + "\n"
	if handler != "" {
		text += fmt.Sprintf("handlers:\n  messages: {url: %q, secret: %q}\n", "http://"+handler, "env:"+secretVariable)
	}
	return text
}

// Names of consumers, for -only.
const (
	nameOnce       = "once"
	nameOnceFIFO   = "once-fifo"
	nameOncePython = "once-python"
	nameOnceTS     = "once-typescript"
	nameCheck      = "check-handle-store"
	nameStore      = "store-handle"
	namePython     = "powertools-python"
	nameTypeScript = "powertools-typescript"
)

func names() []string {
	return []string{nameOnce, nameOnceFIFO, nameOncePython, nameOnceTS, nameCheck, nameStore, namePython, nameTypeScript}
}

// build builds or installs the consumers with these names.
func build(ctx context.Context, root, dir string, wanted []string) ([]*consumer, error) {
	b := builder{root: root, dir: dir, done: map[string]string{}}
	var out []*consumer
	for _, name := range wanted {
		c, err := b.consumer(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("build %s: %w", name, err)
		}
		out = append(out, c)
	}
	return out, nil
}

// A builder remembers the finished builds.
type builder struct {
	root, dir string
	done      map[string]string
}

func (b *builder) consumer(ctx context.Context, name string) (*consumer, error) {
	switch name {
	case nameOnce, nameOnceFIFO:
		process, err1 := b.compile(ctx, "bench", "./faults/process")
		publish, err2 := b.compile(ctx, ".", "./functions/publish")
		return &consumer{name: name, ours: true, fifo: name == nameOnceFIFO, stages: []stage{
			{queue: "ingress", command: []string{process}}, {queue: "publish", command: []string{publish}},
		}}, errors.Join(err1, err2)
	case nameOncePython, nameOnceTS:
		process, err1 := b.compile(ctx, ".", "./functions/process")
		publish, err2 := b.compile(ctx, ".", "./functions/publish")
		handler, err3 := b.handler(ctx, name)
		return &consumer{name: name, ours: true, stages: []stage{
			{queue: "ingress", command: []string{process}, handler: handler}, {queue: "publish", command: []string{publish}},
		}}, errors.Join(err1, err2, err3)
	case nameCheck, nameStore:
		simple, err := b.compile(ctx, "bench", "./peers/simple")
		order := "FAULTS_ORDER=" + strings.TrimPrefix(name, "check-")
		return &consumer{name: name, stages: []stage{{queue: "ingress", command: []string{simple}, env: []string{order}}}}, err
	case namePython, nameTypeScript:
		python, err := b.install(ctx)
		command := []string{python, filepath.Join(b.root, "bench/peers/python/faults.py")}
		if name == nameTypeScript {
			command = []string{"node", filepath.Join(b.root, ".tools/peers/typescript/faults.mjs")}
		}
		return &consumer{name: name, stages: []stage{{queue: "ingress", command: command}}}, err
	default:
		return nil, fmt.Errorf("there is no such consumer: %s are", strings.Join(names(), ", "))
	}
}

// handler returns the command of a handler in another language, without its port.
func (b *builder) handler(ctx context.Context, name string) ([]string, error) {
	folder := filepath.Join(b.root, "bench/faults/handlers")
	if name == nameOncePython {
		path := filepath.Join(b.root, "handlers/python/src") + string(filepath.ListSeparator) + folder
		return []string{"env", "PYTHONPATH=" + path, "python3", "-m", "once_handler", "count:count", "--secret", "env:" + secretVariable, "--port"}, nil
	}
	command := exec.CommandContext(ctx, filepath.Join(b.root, "handlers/typescript/build.sh")) //nolint:gosec // its own script
	if text, err := command.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build handlers/typescript: %w: %s", err, text)
	}
	return []string{"node", filepath.Join(folder, "count.mjs")}, nil
}

// compile builds a program of the module in a folder, as a deployment does, but for this machine.
func (b *builder) compile(ctx context.Context, module, source string) (string, error) {
	if path := b.done[source]; path != "" {
		return path, nil
	}
	path := filepath.Join(b.dir, strings.ReplaceAll(filepath.Join(module, source), "/", "-"))
	command := exec.CommandContext(ctx, "go", "build", "-tags", "lambda.norpc", "-o", path, source) //nolint:gosec // programs of this comparison
	command.Dir, command.Env = filepath.Join(b.root, module), append(os.Environ(), "CGO_ENABLED=0")
	if text, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, text)
	}
	b.done[source] = path
	return path, nil
}

// install installs Powertools, and returns the path of Python's interpreter.
func (b *builder) install(ctx context.Context) (string, error) {
	if python := b.done["peers"]; python != "" {
		return python, nil
	}
	command := exec.CommandContext(ctx, filepath.Join(b.root, "bench/peers/install.sh")) //nolint:gosec // its own script
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("install peers: %w", err)
	}
	b.done["peers"] = strings.TrimSpace(string(out))
	return b.done["peers"], nil
}
