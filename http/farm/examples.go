package farm

import (
	"time"

	"svc/events"
	"svc/http/openapi"
)

var (
	exampleRunner    = events.ID{1, 0x9a, 0xa1, 0, 0x0f, 0x3c, 0x7a, 0x51, 0x8c, 0x22, 0x5b, 0x7d, 0x90, 0xe1, 0xf6, 0xa4}.String()
	exampleWorkspace = events.ID{1, 0x9a, 0xa0, 0xf3, 0xd2, 0xe7, 0x71, 0xb4, 0x8f, 0x60, 0x74, 0xc9, 0x5d, 0xe0, 0x1a, 0xb8}.String()
	exampleTime      = time.Date(2026, 11, 20, 23, 56, 25, 0, time.UTC)

	exampleRegistration = registration{
		RunnerID: exampleRunner, WorkspaceID: exampleWorkspace, Name: "builder-1",
		Certificate: examplePEM("CERTIFICATE"), CACertificate: examplePEM("CERTIFICATE"), Serial: exampleSerial,
		NotBefore: openapi.FormatTime(exampleTime.Add(-5 * time.Minute)), NotAfter: openapi.FormatTime(exampleTime.AddDate(0, 0, 7)),
		RenewAfter: openapi.FormatTime(exampleTime.AddDate(0, 0, 4).Add(16 * time.Hour)),
		AgentURL:   "wss://farm.example/api/v1/farm/agent", HeartbeatSeconds: 10, ArtifactMaxJobBytes: 256 << 20,
		ReleaseKeys: []string{"ed25519:gOXG…"},
	}
	exampleUploaded = uploaded{
		State: "partial", ReceivedBytes: 8 << 20, LimitBytes: 256 << 20,
		Files: []uploadedFile{{ID: "f1", Artifact: exampleRunner, State: "partial", Missing: []int64{1, 2}}},
	}
	exampleSelf = self{
		RunnerID: exampleRunner, WorkspaceID: exampleWorkspace, Name: "builder-1", State: events.RunnerStateOnline, Serial: exampleSerial,
		NotAfter: openapi.FormatTime(exampleTime.AddDate(0, 0, 7)), ServerTime: openapi.FormatTime(exampleTime),
	}
)

const exampleSerial = "4f8c1d04b7a9e35066d1f2c3a4b59687"

func examplePEM(kind string) string {
	return "-----BEGIN " + kind + "-----\n…\n-----END " + kind + "-----\n"
}
