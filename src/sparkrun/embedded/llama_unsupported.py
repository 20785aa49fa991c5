"""Flags that llama-server knows and that xllamacpp offers no parameter for, or none that is known to do the same."""

_SPELLINGS = """
--adaptive-decay --adaptive-target --agent --backend-sampling --cache-list --cache-type-k-draft --cache-type-v-draft
--completion-bash --control-vector --control-vector-layer-range --control-vector-scaled --cpu-mask --cpu-mask-batch
--cpu-mask-batch-draft --cpu-mask-draft --cpu-moe --cpu-moe-draft --cpu-range --cpu-range-batch --cpu-range-draft --cpu-strict
--cpu-strict-batch --cpu-strict-batch-draft --cpu-strict-draft --defrag-thold --device --device-draft --direct-io --docker-repo
--draft --draft-max --draft-min --draft-n --draft-n-min --draft-p-min --draft-p-split --dry-allowed-length --dry-base
--dry-multiplier --dry-penalty-last-n --dry-sequence-breaker --dynatemp-exp --dynatemp-range --embd-gemma-default --escape
--fim-qwen-1.5b-default --fim-qwen-14b-spec --fim-qwen-30b-default --fim-qwen-3b-default --fim-qwen-7b-default --fim-qwen-7b-spec
--gpt-oss-120b-default --gpt-oss-20b-default --gpu-layers-draft --grammar --grammar-file --hf-repo-draft --ignore-eos
--json-schema --json-schema-file --list-devices --log-colors --log-disable --log-file --log-prefix --log-prompts-dir
--log-timestamps --logit-bias --lookup-cache-dynamic --lookup-cache-static --lora --lora-init-without-apply --lora-scaled
--mcp-servers-config --mcp-servers-json --mirostat --mirostat-ent --mirostat-lr --mmproj-url --model-draft --model-url
--models-autoload --models-dir --models-max --models-preset --mtmd-batch-max-tokens --n-cpu-moe --n-cpu-moe-draft
--n-gpu-layers-draft --no-agent --no-direct-io --no-escape --no-log-prefix --no-log-timestamps --no-models-autoload
--no-reasoning-preserve --no-skip-chat-parsing --no-spec-draft-backend-sampling --no-ui-mcp-proxy --no-webui-mcp-proxy
--override-kv --override-tensor --override-tensor-draft --poll-batch --poll-batch-draft --poll-draft --prio-batch
--prio-batch-draft --prio-draft --reasoning-effort --reasoning-preserve --reverse-prompt --rpc --sampler-seq --samplers
--sampling-seq --skip-chat-parsing --spec-default --spec-draft-backend-sampling --spec-draft-cpu-mask
--spec-draft-cpu-mask-batch --spec-draft-cpu-moe --spec-draft-cpu-range --spec-draft-cpu-strict --spec-draft-cpu-strict-batch
--spec-draft-device --spec-draft-hf --spec-draft-model --spec-draft-n-cpu-moe --spec-draft-n-max --spec-draft-n-min
--spec-draft-ncmoe --spec-draft-ngl --spec-draft-override-tensor --spec-draft-p-min --spec-draft-p-split --spec-draft-poll
--spec-draft-poll-batch --spec-draft-prio --spec-draft-prio-batch --spec-draft-threads --spec-draft-threads-batch
--spec-draft-type-k --spec-draft-type-v --spec-ngram-map-k-min-hits --spec-ngram-map-k-size-m --spec-ngram-map-k-size-n
--spec-ngram-map-k4v-min-hits --spec-ngram-map-k4v-size-m --spec-ngram-map-k4v-size-n --spec-ngram-min-hits
--spec-ngram-mod-n-match --spec-ngram-mod-n-max --spec-ngram-mod-n-min --spec-ngram-simple-min-hits --spec-ngram-simple-size-m
--spec-ngram-simple-size-n --spec-ngram-size-m --spec-ngram-size-n --spec-type --spm-infill --threads-batch-draft
--threads-draft --tools --tools-runtime --top-n-sigma --top-nsigma --ui-config --ui-config-file --ui-mcp-proxy
--vision-gemma-12b-default --vision-gemma-4b-default --webui-config --webui-config-file --webui-mcp-proxy -C -Cb -Cbd -Cd -Cr
-Crb -Crd -ag -bs -cl -cmoe -cmoed -ctkd -ctvd -dev -devd -dio -dr -dt -e -hfd -hfrd -j -jf -l -lcd -lcs -md -mmu -mu -ncmoe
-ncmoed -ndio -ngld -no-ag -ot -otd -r -tbd -td
"""

UNSUPPORTED: frozenset[str] = frozenset(_SPELLINGS.split())
