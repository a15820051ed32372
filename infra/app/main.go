// Command app is the CDK app: one stack, configured by the context. See package infra, and
// docs/deploy.md for the settings.
package main

import (
	"fmt"
	"os"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"

	"github.com/effectively-once/once/infra"
)

func main() {
	if err := synth(); err != nil {
		fmt.Fprintln(os.Stderr, "once:", err)
		os.Exit(1)
	}
}

func synth() error {
	defer jsii.Close()
	app := infra.NewApp()
	settings, err := infra.ReadSettings(app.Node())
	if err != nil {
		return err
	}
	if _, err := infra.NewStack(app, settings); err != nil {
		return err
	}
	app.Synth(&awscdk.StageSynthesisOptions{})
	return nil
}
