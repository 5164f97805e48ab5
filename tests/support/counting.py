"""A job that counts, and saves where it stands when it is asked."""

import re

COUNTING = """\
specificationVersion: jobtemplate-2023-09
extensions: [CHECKPOINT]
name: Counting
parameterDefinitions: [{name: N, type: INT, default: 6}]
steps:
- name: Count
  script:
    actions:
      onRun:
        command: python3
        args: ["{{Task.File.Count}}", "{{Param.N}}", "0"]
        checkpointCancelation:
          {mode: NOTIFY_THEN_TERMINATE, notifyPeriodInSeconds: 20, signalToNotify: SIGUSR1}
      onCheckpointResume:
        command: python3
        args: ["{{Task.File.Count}}", "{{Param.N}}", "{{Task.Checkpoint.State}}"]
        checkpointCancelation:
          {mode: NOTIFY_THEN_TERMINATE, notifyPeriodInSeconds: 20, signalToNotify: SIGUSR1}
    embeddedFiles:
    - name: Count
      type: TEXT
      data: |
        import json, signal, sys, time
        asked = []
        signal.signal(signal.SIGUSR1, lambda *_: asked.append(1))
        for number in range(int(sys.argv[2]), int(sys.argv[1])):
            print("number", number, flush=True)
            if sys.argv[2] != "0" and number == int(sys.argv[2]):
                print('openjd_checkpoint_resume_status: {"status": "RESUMED"}', flush=True)
            for _ in range(20):
                time.sleep(0.02)
                if asked:
                    print("openjd_checkpoint_save: " + json.dumps({"state": str(number + 1)}))
                    sys.exit(1)
        print("done", flush=True)
"""


def numbers(text):
    return [int(found) for found in re.findall(r"number (\d+)", text)]
