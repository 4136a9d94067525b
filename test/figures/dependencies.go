package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"

	"golang.org/x/mod/modfile"
)

// measureDependencies counts modules that go.mod requires directly, and packages in the largest program.
func measureDependencies(ctx context.Context) ([]figure, error) {
	text, err := os.ReadFile("go.mod")
	if err != nil {
		return nil, err
	}
	mod, err := modfile.ParseLax("go.mod", text, nil)
	if err != nil {
		return nil, err
	}
	direct := 0
	for _, r := range mod.Require {
		if !r.Indirect {
			direct++
		}
	}
	packages, err := exec.CommandContext(ctx, "go", "list", "-deps", "./cmd/svc-rest").Output()
	if err != nil {
		return nil, fmt.Errorf("list packages: %w", err)
	}
	return []figure{
		{"direct dependencies", direct, "≤ 40"},
		{"packages in svc-rest", bytes.Count(packages, []byte("\n")), "≤ 450"},
	}, nil
}
