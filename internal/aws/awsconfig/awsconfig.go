// Package awsconfig loads the configuration of AWS clients, except in the deployed functions, which
// use package lambdaconfig.
package awsconfig

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/smithy-go/middleware"

	"github.com/effectively-once/once/internal/aws/keepalive"
)

// Load reads the environment and the shared files, as every AWS tool does. It works around an SDK
// bug that closes connections too early.
func Load(ctx context.Context, options ...func(*config.LoadOptions) error) (aws.Config, error) {
	return config.LoadDefaultConfig(ctx, append(slices.Clip(options), config.WithAPIOptions([]func(*middleware.Stack) error{keepalive.AddTo}))...)
}
