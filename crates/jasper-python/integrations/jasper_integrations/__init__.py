"""Vector stores of frameworks on Jasper indexes.

`jasper_integrations.langchain` needs langchain-core, and `jasper_integrations.llama_index` needs llama-index-core.
"""
