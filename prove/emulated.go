package main

import "os"

// emulated has a command started together with what stands in for AWS, by localstack/aws.sh at that path, unless the environment names others.
func emulated(script string, args []string) []string {
	if os.Getenv("AWS_ENDPOINT_URL_DYNAMODB") != "" {
		return args
	}
	return append([]string{script, "run"}, args...)
}
