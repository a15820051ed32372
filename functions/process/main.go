// Command process is the function behind the ingress queues: it runs each message through the
// engine. See internal/system/function/environment for its environment.
package main

import "github.com/effectively-once/once/internal/system/function"

func main() { function.Start(function.Process) }
