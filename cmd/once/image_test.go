package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// instructions returns the instructions of the Dockerfile with their arguments, those of its last
// stage.
func instructions(t *testing.T) map[string]string {
	t.Helper()
	data, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for line := range strings.SplitSeq(strings.ReplaceAll(string(data), "\\\n", ""), "\n") {
		name, arguments, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "FROM" {
			clear(out)
		}
		if name != "" && name != "#" {
			out[name] = strings.TrimSpace(arguments)
		}
	}
	return out
}

// TestTheImageServesWithKeysOnly runs the commands of the image, on folders of this test.
func TestTheImageServesWithKeysOnly(t *testing.T) {
	image := instructions(t)
	if base := image["FROM"]; !strings.HasSuffix(base, ":nonroot") || image["USER"] != "" {
		t.Errorf("the image runs as the user %q of %s, want one without rights", image["USER"], base)
	}
	if image["VOLUME"] != "/data" || image["WORKDIR"] != "/data" {
		t.Errorf("the volume is %s and the working directory %s, want /data", image["VOLUME"], image["WORKDIR"])
	}
	dir := t.TempDir()
	arguments := func(text string) (out []string) {
		t.Helper()
		if err := json.Unmarshal([]byte(text), &out); err != nil {
			t.Fatalf("%s: %v, want a command without a shell, which the image does not have", text, err)
		}
		replace := strings.NewReplacer("/etc/", dir+"/", "/data/", dir+"/", ":8080", ":0")
		for i := range out {
			out[i] = replace.Replace(out[i])
		}
		return out
	}
	serve := arguments(image["CMD"])
	if serve[0] != "serve" || slices.Contains(serve, "--insecure") || !slices.Contains(serve, "0.0.0.0:0") {
		t.Errorf("the image runs %q, want serve, for other machines and without --insecure", serve)
	}
	_, probe, _ := strings.Cut(image["HEALTHCHECK"], "CMD ")
	check := arguments(probe)
	if check[0] != "/usr/local/bin/once" {
		t.Fatalf("the health check runs %s, want the binary of the image", check[0])
	}
	healthy := func() (int, string) {
		t.Helper()
		cmd := command(t.Context(), check[1:]...)
		cmd.Dir = dir
		out, _ := cmd.CombinedOutput() // the exit code has the result
		return cmd.ProcessState.ExitCode(), string(out)
	}
	for server, starts := range map[string]bool{"": false, "server: {auth: {keys: \"env:ONCE_KEYS\"}}": true} {
		if err := os.WriteFile(filepath.Join(dir, "once.yaml"), []byte("streams: {orders: {log: {}}}\n"+server), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, keys := range []string{"", "shop " + strings.Repeat("k", 32)} {
			t.Setenv("ONCE_KEYS", keys)
			if code, out := healthy(); code == exitOK {
				t.Errorf("the health check without a server: exit %d: %s", code, out)
			}
			if starts && keys != "" {
				stop := started(t, dir, regexp.MustCompile(`msg=ready .*auth=\[keys\]`), serve...)
				if code, out := healthy(); code != exitOK {
					t.Errorf("the health check: exit %d: %s", code, out)
				}
				stop()
				continue
			}
			cmd := command(t.Context(), serve...)
			cmd.Dir = dir
			out, _ := cmd.CombinedOutput() // the exit code has the result
			if code := cmd.ProcessState.ExitCode(); code != exitUsage {
				t.Errorf("%q with the keys %q: exit %d, want %d: %s", server, keys, code, exitUsage, out)
			}
		}
	}
}

func TestTheUnitDoesNotRestartAServerWhoseConfigurationIsWrong(t *testing.T) {
	data, err := os.ReadFile("../../packaging/once.service")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(data), "\n")
	for _, want := range []string{
		"Restart=always", "RestartPreventExitStatus=" + strconv.Itoa(exitUsage), "StartLimitIntervalSec=0",
		// otherwise a panic would end the process with the same status
		"Environment=GOTRACEBACK=crash", "LimitCORE=0",
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("the unit has no line %s", want)
		}
	}
	for server, want := range map[string]int{
		"server: {listen: \"0.0.0.0:0\"}":               exitUsage,
		"server: {lisen: \"127.0.0.1:0\"}":              exitUsage,
		"server: {auth: {keys: \"env:ONCE_NO_KEYS\"}}":  exitUsage,
		"server: {auth: {keys: \"file:/no/keys\"}}":     exitFailed, // it may be there later
		"server: {tls: {cert: /no/cert, key: /no/key}}": exitFailed,
	} {
		cmd := command(t.Context(), "serve", "--config", serverFile(t, server), "--data", t.TempDir())
		out, _ := cmd.CombinedOutput() // the exit code has the result
		if code := cmd.ProcessState.ExitCode(); code != want {
			t.Errorf("%s: exit %d, want %d: %s", server, code, want, out)
		}
	}
	if !slices.ContainsFunc(lines, func(line string) bool {
		return strings.HasPrefix(line, "ExecStart=/usr/local/bin/once serve ") && !strings.Contains(line, "--insecure")
	}) {
		t.Error("the unit must run serve, without --insecure")
	}
}
