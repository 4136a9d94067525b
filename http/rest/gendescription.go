//go:build ignore

// This program writes the OpenAPI document, as svc-rest -openapi does, without linking the whole service.
package main

import (
	"log"
	"os"

	"svc/http/rest"
)

func main() {
	if err := rest.Describe(os.Stdout); err != nil {
		log.Fatal(err)
	}
}
