// Command publish is the function behind the publish queues: it sends pending effects to their
// destinations. See internal/system/function/environment for its environment.
package main

import "github.com/effectively-once/once/internal/system/function"

func main() { function.Start(function.Publish) }
