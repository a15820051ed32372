module github.com/effectively-once/once

go 1.26
