// Command construct writes the templates that the construct of packaging/construct includes: one
// for each kind of API and each way to authenticate callers, with and without the optional
// resources of the API. The environment variable CDK_OUTDIR names the folder.
//
// For a configuration, or another setting, `make -C infra included` writes one template.
package main

import (
	"fmt"
	"maps"
	"os"

	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/effectively-once/once/infra"
)

func main() {
	if err := synth(); err != nil {
		fmt.Fprintln(os.Stderr, "construct:", err)
		os.Exit(1)
	}
}

// synth makes a stack for each template, named after it.
func synth() error {
	defer jsii.Close()
	app := infra.NewApp()
	for _, v := range variants() {
		for _, emulator := range []string{"false", "true"} {
			settings := map[string]string{
				"construct": "true", "architecture": "arm64", "deletionProtection": "true", "apiLogsRole": "false", "emulator": emulator, "stack": v.name,
			}
			if emulator == "true" {
				settings["stack"] += "-emulator"
			}
			maps.Copy(settings, v.settings)
			if err := addStack(app, settings); err != nil {
				return err
			}
		}
	}
	app.Synth(nil)
	return nil
}

// A variant is a template, and the settings that make it.
type variant struct {
	name     string
	settings map[string]string
}

// variants returns the variants of the API. The values of texts are placeholders for parameters.
func variants() (out []variant) {
	for _, v := range []variant{
		{"http-iam", map[string]string{"api": "http", "auth": "iam"}},
		{"http-jwt", map[string]string{"api": "http", "auth": "jwt", "jwtIssuer": "issuer", "jwtAudience": "audience"}},
		{"http-none", map[string]string{"api": "http", "auth": "none"}},
		{"rest-iam", map[string]string{"api": "rest", "auth": "iam"}},
		{"rest-jwt", map[string]string{"api": "rest", "auth": "jwt", "userPool": "arn:aws:cognito-idp:eu-central-1:123456789012:userpool/pool"}},
		{"rest-none", map[string]string{"api": "rest", "auth": "none"}},
	} {
		more := variant{v.name, maps.Clone(v.settings)}
		if v.settings["api"] == "http" {
			more.name += "-cors"
			more.settings["corsOrigins"] = "*"
		} else {
			more.name += "-logs"
			more.settings["apiLogsRole"] = "true"
		}
		out = append(out, v, more)
	}
	return out
}

// addStack adds a stack with these settings, as if they were context of the app.
func addStack(app constructs.Construct, context map[string]string) error {
	name := context["stack"]
	node := constructs.NewConstruct(app, jsii.String("Settings-"+name)).Node()
	for key, value := range context {
		node.SetContext(jsii.String(key), value)
	}
	settings, err := infra.ReadSettings(node)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if _, err := infra.NewStack(app, settings); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
