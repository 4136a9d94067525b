package main

import (
	"fmt"

	"svc/http/limit"
	"svc/metrics"
)

// volumes limit the bytes that each workspace, and each submitter of its jobs, may store in a day with
// one process.
type volumes struct {
	jobSpecs  *limit.Limit
	artifacts *limit.Limit
	jobLogs   *limit.Limit
}

// maxVolume is 1 TiB a day. A limit of bytes is an interval between two bytes in nanoseconds: 78 at
// 1 TiB, and too coarse for much more.
const maxVolume = 1 << 20 // MiB

// checkVolumes checks the settings of volumes.
func (c Config) checkVolumes() error {
	for variable, mebibytes := range map[string]int{
		"SVC_DAILY_JOB_MEBIBYTES": c.DailyJobSpecs, "SVC_DAILY_ARTIFACT_MEBIBYTES": c.DailyArtifacts, "SVC_DAILY_LOG_MEBIBYTES": c.DailyLogs,
	} {
		if mebibytes < 0 || mebibytes > maxVolume {
			return fmt.Errorf("%s is malformed: want 0 to %d", variable, maxVolume)
		}
	}
	return nil
}

// newVolumes returns the limits. All are nil, which is no limit, if limits are turned off.
func newVolumes(cfg Config, m *metrics.Metrics) (v volumes, err error) {
	if cfg.RateLimit == 0 {
		return v, nil
	}
	for _, l := range []struct {
		limit     **limit.Limit
		mebibytes int
		metric    string
	}{
		{&v.jobSpecs, cfg.DailyJobSpecs, "job_specifications"},
		{&v.artifacts, cfg.DailyArtifacts, "artifacts"},
		{&v.jobLogs, cfg.DailyLogs, "job_logs"},
	} {
		if *l.limit, err = limit.PerDay(l.mebibytes << 20); err != nil {
			return v, err
		}
		m.Limit(l.metric, (*l.limit).Refused)
	}
	return v, nil
}
