package infra

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/effectively-once/once/internal/aws/bootstrap"
)

func TestFunctionsRunGoOnArmWithoutReservedConcurrency(t *testing.T) {
	x := synth(t)
	for _, id := range x.all(t, functionType, 3) {
		x.Resources[id].expect(t, id, map[string]any{
			"Runtime": "provided.al2023", "Architectures": []string{"arm64"}, "ReservedConcurrentExecutions": nil, "LoggingConfig.LogFormat": "JSON", "RecursiveLoop": "Allow",
		})
	}
	id, ingest := x.one(t, functionType, "Ingest")
	ingest.expect(t, id, map[string]any{"Timeout": 29})
	x = synth(t, "architecture=amd64")
	for _, id := range x.all(t, functionType, 3) {
		x.Resources[id].expect(t, id, map[string]any{"Architectures": []string{"x86_64"}})
	}
}

func TestFunctionsHaveEveryVariableThatTheyRead(t *testing.T) {
	x := sourced(t)
	var want []string
	for _, m := range regexp.MustCompile(`= "(ONCE_[A-Z_]+)"`).FindAllStringSubmatch(source(t, "../internal/system/function/environment")+source(t, "../internal/telemetry"), -1) {
		if m[1] != "ONCE_HANDLERS" { // set only if functions of the app are handlers
			want = append(want, m[1])
		}
	}
	if len(want) < 10 {
		t.Fatalf("found only %v", want)
	}
	for _, id := range x.all(t, functionType, 3) {
		variables, _ := at(x.Resources[id].Properties, "Environment.Variables").(map[string]any)
		for _, name := range want {
			if variables[name] == nil {
				t.Errorf("%s has no %s", id, name)
			}
		}
		if variables["SHOP_SECRET"] != "whsec_MTIz" {
			t.Errorf("%s does not have the variable of the setting environment", id)
		}
	}
}

func TestFunctionsTrustOnlyOneAnother(t *testing.T) {
	x := synth(t)
	id, f := x.one(t, functionType, "Process")
	var roles []any
	for _, name := range []string{"IngestRole", "ProcessRole", "PublishRole"} {
		role, _ := x.one(t, "AWS::IAM::Role", name)
		roles = append(roles, map[string]any{"Fn::GetAtt": []any{role, "RoleId"}})
	}
	f.expect(t, id, map[string]any{"Environment.Variables.ONCE_TRUSTED_SENDERS": map[string]any{"Fn::Join": []any{",", roles}}})
}

func TestOneSettingReplacesAFunction(t *testing.T) {
	assets := func(x *template) map[string]any {
		out := map[string]any{}
		for _, name := range []string{"Ingest", "Process", "Publish"} {
			_, f := x.one(t, functionType, name)
			out[name] = at(f.Properties, "Code.S3Key")
		}
		return out
	}
	before, after := assets(synth(t)), assets(synth(t, "processFunction=FOLDER/own"))
	if before["Process"] == after["Process"] {
		t.Error("the process function is the built-in one")
	}
	if before["Ingest"] != after["Ingest"] || before["Publish"] != after["Publish"] {
		t.Error("other functions have changed too")
	}
}

func TestABootstrapOfAnotherArchitectureIsAnError(t *testing.T) {
	header := func(machine elf.Machine) *bytes.Reader {
		var b bytes.Buffer
		h := elf.Header64{
			Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)}, Type: uint16(elf.ET_EXEC),
			Machine: uint16(machine), Version: uint32(elf.EV_CURRENT), Ehsize: 64,
		}
		if err := binary.Write(&b, binary.LittleEndian, h); err != nil {
			t.Fatal(err)
		}
		return bytes.NewReader(b.Bytes())
	}
	for built, fits := range map[Architecture]elf.Machine{ARM64: elf.EM_AARCH64, AMD64: elf.EM_X86_64} {
		for _, machine := range []elf.Machine{elf.EM_AARCH64, elf.EM_X86_64} {
			if err := bootstrap.Check(header(machine), string(built)); (err == nil) != (machine == fits) {
				t.Errorf("%s on %s: got %v", machine, built, err)
			}
		}
		if err := bootstrap.Check(strings.NewReader("#!/bin/sh\n"), string(built)); err != nil {
			t.Errorf("a script on %s: got %v", built, err)
		}
	}
}

func TestAMissingBootstrapIsAnErrorThatNamesTheCommandToBuildIt(t *testing.T) {
	_, err := build(t, "publishFunction=FOLDER/nowhere")
	if err == nil || !strings.Contains(err.Error(), "make lambdas") || !strings.Contains(err.Error(), "Publish") {
		t.Errorf("got %v", err)
	}
}

func TestTheIngestFunctionIsReplacedAfterTheFunctionsThatReadWhatItAccepts(t *testing.T) {
	x := synth(t)
	_, ingest := x.one(t, functionType, "Ingest")
	after := fmt.Sprint(ingest.DependsOn)
	for _, part := range []string{"Process", "Publish"} {
		if behind, _ := x.one(t, functionType, part); !strings.Contains(after, behind) {
			t.Errorf("it depends on %s, and not on %s", after, behind)
		}
	}
}
